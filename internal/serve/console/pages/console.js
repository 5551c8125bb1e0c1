"use strict";
// The console works without this script. It adds the keyboard, the theme, live parts and notices.
(() => {
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const say = text => { find("#status").textContent = text; };

  // Theme: as the browser prefers, or what the visitor chose.
  const theme = find("#theme");
  theme.hidden = false;
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const nameTheme = () => { theme.textContent = dark() ? "Light" : "Dark"; theme.setAttribute("aria-label", dark() ? "Use the light theme" : "Use the dark theme"); };
  theme.addEventListener("click", () => {
    const value = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = value;
    document.cookie = `theme=${value}; path=/; max-age=31536000; samesite=strict`;
    nameTheme();
  });
  nameTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);

  // On a phone the sections are one line that scrolls.
  const section = find("header nav [aria-current]");
  if (section) section.parentElement.scrollLeft = section.offsetLeft - section.parentElement.offsetLeft - 40;

  // Keyboard.
  const help = find("#help"), keys = find("#keys");
  keys.hidden = false;
  keys.addEventListener("click", () => help.showModal());
  let current = null, going = false;
  const rows = () => all("[data-row]").filter(r => r.offsetParent !== null);
  const select = step => {
    const list = rows();
    if (!list.length) return;
    const at = list.indexOf(current);
    const next = list[Math.max(0, Math.min(list.length - 1, at < 0 ? (step > 0 ? 0 : list.length - 1) : at + step))];
    if (current) current.classList.remove("current");
    current = next;
    current.classList.add("current");
    const target = find("a, summary, button", current);
    if (target) target.focus({ preventScroll: true });
    current.scrollIntoView({ block: "nearest" });
  };
  const sections = { o: "/", e: "/executions", a: "/approvals", t: "/tools", p: "/playground", s: "/sessions", l: "/policy", r: "/audit", u: "/usage", k: "/keys" };
  document.addEventListener("keydown", e => {
    const field = e.target.closest("input, textarea, select, dialog");
    if (e.key === "Escape" && field && field.blur) { field.blur(); return; }
    if (field || e.ctrlKey || e.metaKey || e.altKey) return;
    if (going) {
      going = false;
      const link = sections[e.key] && find(`nav a[href="${sections[e.key]}"]`);
      if (link) { e.preventDefault(); link.click(); }
      return;
    }
    switch (e.key) {
      case "/": {
        const field = find("[data-search]");
        if (field) { e.preventDefault(); field.focus(); field.select(); }
        break;
      }
      case "j": e.preventDefault(); select(1); break;
      case "k": e.preventDefault(); select(-1); break;
      case "[": case "]": {
        const link = find(`#steps a[rel=${e.key === "[" ? "prev" : "next"}]`);
        if (link) { e.preventDefault(); link.click(); }
        break;
      }
      case "g": going = true; break;
      case "?": e.preventDefault(); help.showModal(); break;
    }
  });

  // A call's arguments and result are fetched when it is opened.
  document.addEventListener("toggle", async e => {
    const call = e.target;
    if (!(call instanceof HTMLDetailsElement) || !call.open || !call.dataset.part || call.dataset.fetched) return;
    call.dataset.fetched = "true";
    const to = find(".part", call);
    try {
      const answer = await fetch(call.dataset.part, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      to.innerHTML = await answer.text(); // escaped by the server
    } catch {
      delete call.dataset.fetched;
    }
  }, true);

  // Several requests are selected at once.
  for (const b of all("[data-select]")) {
    b.hidden = false;
    b.addEventListener("click", () => { for (const c of all("input[name=request]:not(:disabled)")) c.checked = b.dataset.select === "all"; });
  }

  // New requests for approval are announced, if the visitor wants that. A notice has the tool only.
  const approvals = find('nav a[href="/approvals"]');
  if (approvals) {
    const notify = find("#notify");
    if (notify && "Notification" in window && Notification.permission === "default") {
      notify.hidden = false;
      notify.addEventListener("click", async () => { await Notification.requestPermission(); notify.hidden = Notification.permission !== "default"; });
    }
    let known = null;
    const look = async () => {
      try {
        const answer = await fetch("/approvals/waiting", { credentials: "same-origin" });
        if (!answer.ok || answer.redirected) return;
        const waiting = await answer.json();
        approvals.textContent = waiting.length ? `Approvals (${waiting.length})` : "Approvals";
        if (known) {
          for (const w of waiting.filter(w => !known.has(w.id))) {
            say(`A call of ${w.tool} waits for approval.`);
            if ("Notification" in window && Notification.permission === "granted") {
              const n = new Notification("A call waits for approval", { body: w.tool, tag: w.id });
              n.addEventListener("click", () => { window.focus(); location.href = `/approvals/${encodeURIComponent(w.id)}`; });
            }
          }
        }
        known = new Set(waiting.map(w => w.id));
      } catch { /* the next look may succeed */ }
    };
    look();
    setInterval(() => { if (!document.hidden || ("Notification" in window && Notification.permission === "granted")) look(); }, 15000);
  }

  // The playground offers names of tools.
  const code = find("#code");
  if (code) {
    const names = all("#names option").map(o => o.value), box = find("#completions");
    const word = () => /[\w.$]*$/.exec(code.value.slice(0, code.selectionStart))[0];
    const offer = () => {
      const begun = word().toLowerCase();
      const found = begun.length < 2 ? [] : names.filter(n => n.toLowerCase().includes(begun) && n !== word()).slice(0, 8);
      box.replaceChildren(...found.map(n => {
        const b = document.createElement("button");
        b.type = "button";
        b.textContent = n;
        b.addEventListener("click", () => {
          const end = code.selectionStart, w = word();
          code.setRangeText(n, end - w.length, end, "end");
          box.hidden = true;
          code.focus();
        });
        return b;
      }));
      box.hidden = !found.length;
    };
    code.addEventListener("input", offer);
    // Hidden characters of the program are listed, and stay in it.
    const note = find("#hidden");
    const unseen = /[^\P{C}\n\t]|[\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
    code.addEventListener("input", () => {
      const found = [...code.value.matchAll(unseen)].slice(0, 20);
      note.hidden = !found.length;
      note.replaceChildren(...found.map(m => {
        const p = document.createElement("p"), before = code.value.slice(0, m.index).split("\n");
        p.textContent = `A character that can't be seen, at line ${before.length}: U+${m[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
        return p;
      }));
    });
    code.addEventListener("keydown", e => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) code.form.requestSubmit();
      if (e.key === " " && e.ctrlKey) { e.preventDefault(); offer(); const first = find("button", box); if (first) first.focus(); }
    });
  }

  // A live part is replaced whenever the server sends another one. What was open stays open.
  const live = find("[data-events]");
  if (live) {
    const events = new EventSource(live.dataset.events);
    const replace = text => {
      const open = new Map(all("details.call[open]", live).map(d => [d.dataset.part, find(".part", d).innerHTML]));
      const focus = document.activeElement && live.contains(document.activeElement) && document.activeElement.closest("[id]");
      live.innerHTML = text; // escaped by the server
      for (const d of all("details.call", live)) {
        if (open.has(d.dataset.part)) { find(".part", d).innerHTML = open.get(d.dataset.part); d.open = true; }
      }
      current = null;
      if (focus) { const again = document.getElementById(focus.id); const target = again && find("a, summary, button", again); if (target) target.focus({ preventScroll: true }); }
    };
    events.addEventListener("change", e => replace(e.data));
    events.addEventListener("end", e => { events.close(); if (e.data) { replace(e.data); say("The execution has ended."); } });
  }
})();
