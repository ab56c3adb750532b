// The tenants' controls.

import { signOf } from "./pictures.js";
import { size } from "./state.js";

const DEPTHS = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const BLOCKS = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576];
// Round numbers, about seven to a decade.
const WEIGHTS = [1, 10, 100, 1000].flatMap((decade) => [1, 1.5, 2, 3, 4, 5, 6, 8].map((it) => Math.floor(it * decade)))
  .filter((it, index, all) => it !== all[index - 1]).concat(10000);
const nearest = (values, value) => values.reduce((best, it, index) => (Math.abs(Math.log(it / value)) < Math.abs(Math.log(values[best] / value)) ? index : best), 0);

// Draws the controls of all tenants. `live(change)` makes a change at once, `restart(edit)` edits the start.
export function drawTenants(place, state, { live, restart }) {
  const template = document.getElementById("tenant-template");
  place.replaceChildren(...state.tenants.map((tenant, index) => {
    const card = template.content.firstElementChild.cloneNode(true);
    const get = (selector) => card.querySelector(selector);
    card.style.borderLeftColor = `var(--t${index})`;
    card.dataset.tenant = index;
    get(".sign").textContent = signOf(index);
    get(".sign").style.color = `var(--t${index})`;
    get(".name").value = tenant.name;
    get(".name").addEventListener("change", (event) => restart((next) => { next.tenants[index].name = event.target.value; }));
    get(".on").checked = tenant.on;
    get(".on").addEventListener("change", (event) => live({ what: "on", tenant: index, on: event.target.checked }));
    const slider = (selector, at, text, value, change) => {
      const input = get(selector);
      const output = input.parentElement.querySelector(".value");
      input.value = at;
      output.textContent = text(value);
      input.setAttribute("aria-valuetext", text(value));
      input.addEventListener("input", () => {
        const now = change(Number(input.value));
        output.textContent = text(now);
        input.setAttribute("aria-valuetext", text(now));
      });
    };
    get(".weight").max = WEIGHTS.length - 1;
    slider(".weight", nearest(WEIGHTS, tenant.weight), String, tenant.weight, (at) => {
      const weight = WEIGHTS[at];
      live({ what: "weight", tenant: index, weight });
      return weight;
    });
    const load = (more) => {
      const { depth, block, read, random } = { ...state.tenants[index], ...more };
      live({ what: "load", tenant: index, depth, block, read, random });
    };
    slider(".depth", nearest(DEPTHS, tenant.depth), String, tenant.depth, (at) => { load({ depth: DEPTHS[at] }); return DEPTHS[at]; });
    slider(".block", nearest(BLOCKS, tenant.block), size, tenant.block, (at) => { load({ block: BLOCKS[at] }); return BLOCKS[at]; });
    slider(".read", tenant.read, (read) => `${read} %`, tenant.read, (read) => { load({ read }); return read; });
    get(".random").checked = tenant.random;
    get(".random").addEventListener("change", (event) => load({ random: event.target.checked }));
    const isGiven = tenant.workload !== "";
    for (const own of card.querySelectorAll(".own")) own.hidden = isGiven;
    get(".given").textContent = [isGiven ? `load: ${tenant.workload}` : "", tenant.more].filter(Boolean).join(", ");
    get(".given").hidden = !isGiven && tenant.more === "";
    get(".remove").disabled = state.tenants.length === 1;
    get(".remove").setAttribute("aria-label", `Remove ${tenant.name}`);
    get(".remove").addEventListener("click", () => restart((next) => { next.tenants.splice(index, 1); }));
    return card;
  }));
}
