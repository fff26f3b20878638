// SPDX-License-Identifier: Apache-2.0
// Draws each message as a bar of its stages; names the stage under the pointer; lists the stages of
// a message after a click on its bar.
for (const box of document.querySelectorAll(".messages")) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const [bars, tip, list] = ["bars", "tip", "list"].map(name => box.querySelector("." + name));
  const most = Math.max(...data.messages.map(one => one.latency));
  const number = value => value.toLocaleString("en");
  const time = cycles =>
    `${number(cycles)} cycle${cycles === 1 ? "" : "s"} (${number(cycles * data.ns)} ns)`;
  const waits = causes => Object.entries(causes)
    .map(([cause, cycles]) => `${cause} ${time(cycles)}`).join(", ") || "none";

  function add(parent, name, text = "", kind = "") {
    const made = parent.appendChild(document.createElement(name));
    made.textContent = text;
    made.className = kind;
    return made;
  }

  function open(one, bar) {
    bars.querySelectorAll("[aria-pressed=true]").forEach(
      other => other.setAttribute("aria-pressed", "false"));
    bar.setAttribute("aria-pressed", "true");
    list.replaceChildren();
    add(list, "p", `Message ${one.message}: ${time(one.latency)}; its doorbell is ` +
      `${number(one.begin * data.ns / 1000)} µs after the begin of the run (time axis of a trace).`);
    const table = add(add(list, "div", "", "wide"), "table", "", "prose");
    const head = add(table, "tr");
    const columns = ["stage", "where", "begins", "service", "waits"];
    for (const name of columns) add(head, "th", name);
    let at = 0;
    one.stages.forEach(([service, causes], place) => {
      const row = add(table, "tr");
      [data.stages[place].stage, data.stages[place].place, number(at), time(service),
        waits(causes)].forEach((text, column) => {
        add(row, "td", text).dataset.name = columns[column];
      });
      at += service + Object.values(causes).reduce((sum, cycles) => sum + cycles, 0);
    });
    list.scrollIntoView({ block: "nearest" });
  }

  for (const one of data.messages) {
    const bar = add(bars, "button", "", "bar");
    bar.type = "button";
    bar.setAttribute("aria-pressed", "false");
    add(bar, "span", `${one.message}: ${number(one.latency)}`, "name");
    const line = add(bar, "span", "", "line");
    one.stages.forEach(([service, causes], place) => {
      const stage = data.stages[place];
      const wait = Object.values(causes).reduce((sum, cycles) => sum + cycles, 0);
      for (const [kind, cycles] of [["wait", wait], ["service", service]]) {
        if (!cycles) continue;
        const part = add(line, "span", "", `${kind} ${stage.place.replace(" ", "-")}`);
        part.style.width = `${100 * cycles / most}%`;
        part.dataset.tip = `Message ${one.message}, ${stage.stage} (${stage.place}): service ` +
          `${time(service)}; waits: ${waits(causes)}`;
      }
    });
    bar.addEventListener("click", () => open(one, bar));
  }

  bars.addEventListener("pointermove", event => {
    const text = event.target.dataset.tip;
    tip.hidden = !text;
    tip.textContent = text || "";
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 16}px`;
  });
  bars.addEventListener("pointerleave", () => { tip.hidden = true; });
}
