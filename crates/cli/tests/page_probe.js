// Appended to a copy of the page by tests/page.rs: looks at what the browser made of it, and tells the page around it.
addEventListener("load", () => {
  // What is folded away has a place, but is not seen.
  const seen = (element) => element.checkVisibility() && element.getClientRects().length > 0 && element.getBoundingClientRect().width > 0;
  const drawings = [...document.querySelectorAll("svg[role=img]")].filter(seen);
  const outside = [], overlaps = [];
  let smallest = 99;
  for (const drawing of drawings) {
    const frame = drawing.getBoundingClientRect();
    const texts = [...drawing.querySelectorAll("text")].filter(seen);
    const boxes = texts.map((text) => text.getBoundingClientRect());
    texts.forEach((text, index) => {
      const box = boxes[index];
      smallest = Math.min(smallest, parseFloat(getComputedStyle(text).fontSize) * frame.width / drawing.viewBox.baseVal.width);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2)
        outside.push(text.textContent);
      for (let other = 0; other < index; other++) {
        const wide = Math.min(box.right, boxes[other].right) - Math.max(box.left, boxes[other].left);
        const high = Math.min(box.bottom, boxes[other].bottom) - Math.max(box.top, boxes[other].top);
        // Letters do not fill their line: a little of the boxes may overlap.
        if (wide > 2 && high > box.height * 0.35) overlaps.push(texts[other].textContent + " / " + text.textContent);
      }
    });
  }
  // Each series is reached by Tab and shows its figures inside of its drawing.
  const series = [...document.querySelectorAll(".series")].filter(seen);
  const mute = series.filter((one) => {
    one.focus();
    const tip = one.querySelector(".tip"), box = tip.getBoundingClientRect();
    const frame = one.closest("svg").getBoundingClientRect();
    const shown = document.activeElement === one && getComputedStyle(tip).display !== "none" && box.width > 0;
    one.blur();
    return !shown || box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2;
  }).map((one) => one.getAttribute("aria-label"));
  const marks = [...document.querySelectorAll(".panel g.m > *")].filter((mark) => mark.querySelector("title"));
  const colour = (selector) => {
    const element = document.querySelector(selector);
    return element ? getComputedStyle(element).fill : "";
  };
  const result = {
    width: innerWidth, needed: document.documentElement.scrollWidth, drawings: drawings.length, series: series.length, mute, outside, overlaps, smallest,
    marks: marks.length, marksSeen: marks.filter(seen).length,
    shapes: [...new Set(marks.map((mark) => mark.tagName + (mark.getAttribute("d") || "").replace(/^M[\d.]+ [\d.]+/, "")))].length,
    hint: marks.length ? marks[0].querySelector("title").textContent : "",
    ink: colour("svg .name"), card: getComputedStyle(document.querySelector("section")).backgroundColor,
    requests: performance.getEntriesByType("resource").length,
  };
  // The page stands in a frame as wide as the window that is tried.
  parent.postMessage(JSON.stringify(result), "*");
});
