// The connection to the driver. Both sides send frames: one byte for the kind, the text, and a
// newline (package process describes them).

import { writeSync } from "node:fs";

const fd = 3;
const bufferFrom = Buffer.from, { wait } = Atomics, exit = process.reallyExit.bind(process);
const cell = new Int32Array(new SharedArrayBuffer(4));

let written = false; // to standard output, since the driver last passed it on

/** Sends a frame. It waits until the driver has room, so that output is bounded. */
export function send(kind, text) {
  if (written) {
    written = false;
    if (kind !== "O") put(fd, bufferFrom("O\n"));
  }
  put(fd, bufferFrom(kind + text + "\n"));
}

/** Writes to standard output or standard error. */
export function writeOutput(to, data) {
  written = true;
  put(to, data);
}

function put(to, data) {
  for (let pause = 1; data.length > 0;) {
    try {
      data = data.subarray(writeSync(to, data));
      pause = 1;
    } catch (e) {
      if (e.code !== "EAGAIN") exit(0); // the driver has closed the connection
      wait(cell, 0, 0, pause);
      pause = pause < 16 ? pause * 2 : 16;
    }
  }
}

let pending; // resolves the question that the driver has not answered

/** Asks the host a question; the result is the answer's text, or undefined if there is none. */
export function ask(question) {
  return new Promise((resolve) => { pending = resolve; send("Q", question); });
}

/** Delivers an answer. */
export function answered(text) {
  const resolve = pending;
  pending = undefined;
  if (resolve !== undefined) resolve(text);
}

/** Reports whether a question is pending. */
export const isAsking = () => pending !== undefined;
