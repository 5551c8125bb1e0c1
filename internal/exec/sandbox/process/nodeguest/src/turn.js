// Lets the agent look at the program after its jobs of a turn have run.

const later = setImmediate;
let look = () => {}, asked = false;

/** Sets what happens then. */
export function onTurn(f) { look = f; }

/** Reports whether a look is requested. */
export const isPoked = () => asked;

/** Requests a look. */
export function poke() {
  if (asked) return;
  asked = true;
  later(() => { asked = false; look(); });
}
