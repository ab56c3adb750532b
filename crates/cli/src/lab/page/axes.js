// The axes that all lanes have in common, so that their pictures can be compared.

// `histories` are those of the lanes.
export function commonAxes(histories, nowNs) {
  const drawn = histories.filter((history) => history.dispatches.length);
  // As far back as every lane has its requests.
  const from = drawn.reduce((latest, history) => Math.max(latest, history.dispatches[0].at), 0);
  const sectors = drawn.flatMap((history) => history.dispatches.filter((row) => row.at >= from).map((row) => row.sector));
  const points = histories.flatMap((history) => history.strip());
  return {
    from,
    to: Math.max(nowNs, from + 1),
    lowest: sectors.reduce((a, b) => Math.min(a, b), Infinity),
    highest: sectors.reduce((a, b) => Math.max(a, b), -Infinity),
    rates: range(points.flatMap((point) => point.rates)),
    latencies: range(points.flatMap((point) => point.p99)),
  };
}

// The least above zero, and the largest; nothing if there is none.
function range(values) {
  const above = values.filter((value) => value > 0);
  if (above.length === 0) return null;
  return [above.reduce((a, b) => Math.min(a, b)), above.reduce((a, b) => Math.max(a, b))];
}
