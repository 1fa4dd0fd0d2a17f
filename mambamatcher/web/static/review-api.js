// Requests of the review page, one function each.

import { json, request, send } from "./api.js";

export const referenceUrl = (number) => `/review/references/${number}/image`;
export const targetUrl = (number) => `/review/targets/${number}/image`;
export const loadRun = () => request("/review/run").then(json);
export const startRound = () => request("/review/round", { method: "POST" }).then(json);
export const loadRound = () => request("/review/round").then(json);

/** The points of a target as found, and its correction: {status, points}, with null for an absent point, or null. */
export async function loadTarget(number) {
  const { size, points, correction } = await request(`/review/targets/${number}`).then(json);
  return { size, points: new Map(points.map((point) => [point.name, point])), correction: correction && { ...correction, points: toMap(correction.points) } };
}

export const toMap = (points) => new Map(points.map(({ name, place }) => [name, place]));

export function saveCorrection(number, correction) {
  if (!correction) return request(`/review/targets/${number}`, { method: "DELETE" });
  const points = [...correction.points].map(([name, place]) => ({ name, place }));
  return send("PUT", `/review/targets/${number}`, { status: correction.status, points });
}
