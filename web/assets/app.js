// Keeps an open page true: re-fetches it when its master says that something has changed, and heals it after a
// failover. Without script every page works all the same: it is then as old as its last load.
"use strict";
(() => {
  const body = document.body;
  const banner = document.getElementById("banner");
  const words = document.getElementById("banner-text");
  const REFRESH_MIN_MS = 1000;   // never more often, however much happens
  const RETRY_MIN_MS = 300, RETRY_MAX_MS = 3000;
  const POLL_MS = 5000;          // where no stream can be had
  const FETCH_MS = 8000;
  const PROBE_MS = 1500;
  const LOG_CHARS_MAX = 2000000; // what is kept of a followed log

  const skew = Number(body.dataset.now || Date.now()) - Date.now();
  const now = () => Date.now() + skew;

  // Times. The same words as the server's.
  const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  function span(ms) {
    ms = Math.max(0, ms);
    if (ms < 1000) return Math.floor(ms) + " ms";
    for (let i = 0; i < UNITS.length; i++) {
      const [unit, name] = UNITS[i];
      if (ms < unit) continue;
      const whole = Math.floor(ms / unit), next = UNITS[i + 1];
      const rest = next ? Math.floor((ms % unit) / next[0]) : 0;
      return rest > 0 ? `${whole} ${name} ${rest} ${next[1]}` : `${whole} ${name}`;
    }
    return "0 ms";
  }
  function short(ms) {
    for (const [unit, name] of UNITS) if (ms >= unit) return Math.floor(ms / unit) + " " + name;
    return "";
  }
  function ago(at) {
    const past = now() - at;
    if (past < -1000) return "in " + short(-past);
    return past < 1000 ? "just now" : short(past) + " ago";
  }
  function put(node, text) { if (node.textContent !== text) node.textContent = text; }
  function times() {
    for (const t of document.querySelectorAll("time[data-at]")) put(t, ago(Number(t.dataset.at)));
    for (const t of document.querySelectorAll("[data-since]")) put(t, span(now() - Number(t.dataset.since)));
  }
  setInterval(times, 1000);

  // What a failover shows. Said to screen readers, too.
  let trouble = false, hideAt = 0;
  function say(kind, text) {
    banner.className = "banner " + kind;
    banner.hidden = false;
    put(words, text);
    trouble = kind !== "good";
    document.documentElement.classList.toggle("stale", trouble);
    if (!trouble) { clearTimeout(hideAt); hideAt = setTimeout(() => { if (!trouble) banner.hidden = true; }, 8000); }
  }
  function ask(url, options, limit) {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), limit);
    return fetch(url, { cache: "no-store", signal: stop.signal, ...options }).finally(() => clearTimeout(timer));
  }

  // Takes over what differs, and leaves alone what does not: focus, selection and scrolling stay.
  const keyOf = (n) => n.nodeType === 1 ? n.getAttribute("data-key") || n.id || null : null;
  function alike(a, b) { return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b); }
  function morph(from, to) {
    if (from.nodeType !== 1) { if (from.data !== to.data) from.data = to.data; return; }
    if (from.hasAttribute("data-keep")) return;
    for (const { name } of [...from.attributes]) if (!to.hasAttribute(name) && !(name === "open" && from.nodeName === "DETAILS")) from.removeAttribute(name);
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    if (from === document.activeElement && /^(INPUT|SELECT|TEXTAREA)$/.test(from.nodeName)) return;
    if (from.nodeName === "INPUT" && from.value !== to.value) from.value = to.value;
    children(from, to);
  }
  function children(from, to) {
    const keyed = new Map();
    for (const c of from.childNodes) { const k = keyOf(c); if (k) keyed.set(k, c); }
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      const k = keyOf(wanted), known = k && keyed.get(k);
      if (known && known.nodeName === wanted.nodeName) {
        if (known === at) at = at.nextSibling; else from.insertBefore(known, at);
        morph(known, wanted);
      } else if (at && alike(at, wanted)) {
        const next = at.nextSibling; morph(at, wanted); at = next;
      } else {
        from.insertBefore(wanted, at);
      }
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  }

  let busy = false, again = false, due = 0, notBefore = 0, retry = RETRY_MIN_MS, goodAt = Date.now();
  const live = body.dataset.live !== "off";
  function refreshSoon(ms) {
    clearTimeout(due);
    due = setTimeout(refresh, Math.max(ms, notBefore - Date.now()));
  }
  function clock(at) { return new Date(at).toLocaleTimeString(); }
  function show(text) {
    const next = new DOMParser().parseFromString(text, "text/html");
    const main = next.getElementById("main");
    if (!main) throw new Error("no page");
    for (const id of ["main", "who"]) {
      const mine = document.getElementById(id), other = next.getElementById(id);
      if (mine && other) morph(mine, other);
    }
    const was = body.dataset.epoch, is = next.body.dataset.epoch, leader = next.body.dataset.leader;
    Object.assign(body.dataset, next.body.dataset);
    document.title = next.title;
    if (trouble || (was && is && was !== is)) {
      const news = was === is || !leader ? "" : `${leader} leads now, in epoch ${is}. `;
      say("good", news + "Everything here is up to date again.");
    }
    times();
  }
  async function refresh() {
    if (!live) return;
    if (busy || document.hidden) { again = true; return; }
    busy = true; again = false;
    const began = Date.now(), url = location.href;
    let good = false;
    try {
      const answer = await ask(url, { headers: { "interrex-live": "1" } }, FETCH_MS);
      const text = await answer.text();
      if (url === location.href) {
        if (answer.ok || answer.status === 404 || answer.status === 400) { show(text); good = true; }
        else if (answer.status === 503) say("wait", `No leader answers at the moment. What you see is of ${clock(goodAt)}; this page goes on by itself.`);
        else say("bad", `${body.dataset.me} answered ${answer.status}. What you see is of ${clock(goodAt)}; trying again.`);
      } else { again = true; good = true; }
    } catch {
      const others = body.dataset.masters ? "it and the other masters" : "again";
      say("wait", `${body.dataset.me} does not answer. What you see is of ${clock(goodAt)}; trying ${others}.`);
      await elsewhere();
    }
    busy = false;
    const took = Date.now() - began;
    notBefore = Date.now() + Math.max(REFRESH_MIN_MS, 10 * took);
    if (good) { goodAt = Date.now(); retry = RETRY_MIN_MS; }
    else { notBefore = 0; refreshSoon(retry); retry = Math.min(retry * 2, RETRY_MAX_MS); return; }
    if (again) refreshSoon(0);
  }

  // Its master is gone: any other one shows the same page.
  async function elsewhere() {
    const others = (body.dataset.masters || "").split(" ").filter((a) => a && a !== location.host);
    const probes = others.map(async (a) => {
      const base = location.protocol + "//" + a;
      await ask(base + "/livez", { mode: "no-cors" }, PROBE_MS);
      return base;
    });
    try {
      const base = await Promise.any(probes);
      const own = await ask("/livez", {}, PROBE_MS).then(() => true, () => false);
      if (!own) location.replace(base + location.pathname + location.search);
    } catch { /* nobody answers: the next try asks again */ }
  }

  // A page that is left may be kept by the browser, with its streams open for a minute; it has six of them for a server, and
  // the seventh page would wait that long. So a page closes them as it goes, and is loaded anew if it comes back.
  const leaving = new AbortController();
  let source = null;
  addEventListener("pagehide", () => { leaving.abort(); if (source) source.close(); });
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  let last = "";
  function listen() {
    source = new EventSource("/live");
    source.onmessage = (message) => {
      const beat = JSON.parse(message.data);
      if (!beat.leader) say("wait", `The masters are electing a leader. What you see is of ${clock(goodAt)}; this page goes on by itself.`);
      const mark = `${beat.leader} ${beat.epoch} ${beat.change}`;
      const fresh = last === "" && beat.leader === body.dataset.leader && String(beat.epoch) === body.dataset.epoch;
      if (beat.leader && !fresh && (mark !== last || trouble)) refreshSoon(0);
      last = mark;
    };
    source.onerror = () => {
      refreshSoon(RETRY_MIN_MS);
      // A stream that was refused (too many viewers) stays closed: then look now and then.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { refresh(); listen(); }, POLL_MS);
    };
  }
  if (live) {
    if (body.dataset.live === "on") listen(); else setInterval(() => refreshSoon(0), POLL_MS);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshSoon(0); });
  }

  // Filters apply while one types; the address always says what is shown.
  let typing = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (!form || !form.hasAttribute("data-filter")) return;
    clearTimeout(typing);
    typing = setTimeout(() => {
      const fields = [...new FormData(form)].filter(([, value]) => value !== "");
      history.replaceState(null, "", form.getAttribute("action") + (fields.length ? "?" + new URLSearchParams(fields) : ""));
      notBefore = 0; refreshSoon(0);
    }, 250);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName)) return;
    const field = document.querySelector("form[data-filter] input[type=search]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  });

  // A log, followed. It goes on where it was cut off, whoever leads meanwhile.
  const log = document.getElementById("log");
  if (log && log.dataset.follow) follow(log);
  async function follow(log) {
    const state = document.getElementById("log-state"), stick = document.getElementById("log-stick");
    let offset = Number(log.dataset.offset), worker = log.dataset.worker, pause = RETRY_MIN_MS, broken = false;
    log.scrollTop = log.scrollHeight;
    for (;;) {
      try {
        const answer = await fetch(`${log.dataset.follow}&offset=${offset}`, { cache: "no-store", signal: leaving.signal });
        if (answer.status === 404 || answer.status === 400) { put(state, "This output is no longer kept."); return; }
        if (!answer.ok) throw new Error(String(answer.status));
        const on = answer.headers.get("interrex-worker") || "";
        if (worker && on && on !== worker) { append(`\n--- now on ${on} ---\n`); offset = 0; worker = on; continue; }
        worker = on || worker;
        put(state, broken ? "Following again." : "Following.");
        broken = false; pause = RETRY_MIN_MS;
        const reader = answer.body.getReader(), text = new TextDecoder();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          offset += value.byteLength;
          append(text.decode(value, { stream: true }));
        }
        const over = await ask(log.dataset.state, {}, FETCH_MS).then((a) => a.json());
        if (over.over) { put(state, `Over: ${over.state}.`); return; }
      } catch {
        if (leaving.signal.aborted) return;
        broken = true;
        put(state, "Cut off; trying again.");
      }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, RETRY_MAX_MS);
    }
    function append(text) {
      const first = log.firstChild || log.appendChild(document.createTextNode(""));
      // eslint-disable-next-line no-control-regex
      first.appendData(text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, ""));
      if (first.length > LOG_CHARS_MAX) first.deleteData(0, first.length - LOG_CHARS_MAX);
      if (!stick || stick.checked) log.scrollTop = log.scrollHeight;
    }
  }
})();
