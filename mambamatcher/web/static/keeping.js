// The session as this browser keeps it, in IndexedDB: exactly the images and points of the state, after every change.

import { serverIds } from "./images.js";
import { images, onChange, state } from "./store.js";

const NAME = "mambamatcher";
const STORES = ["session", "images", "matches"]; // the session is one record; the others have one for each image
const KEPT = ["model", "threshold", "active", "points", "corrections", "selected", "heat", "lastId"];
const page = `${Date.now()}-${Math.random()}`; // of all pages that show this session, the last one opened may write

let database = null;
let writing = false;
let changed = false;
let takenOver = false;
const written = { images: new Set(), matches: new Map() };

/** Called with whether the session is kept and, where it is not, with a sentence that says why. */
export const report = { kept: () => {}, problem: () => {} };

const finish = (request) => new Promise((resolve, reject) => Object.assign(request, { onsuccess: () => resolve(request.result), onerror: () => reject(request.error) }));
const complete = (transaction) => new Promise((resolve, reject) => Object.assign(transaction, { oncomplete: resolve, onabort: () => reject(transaction.error), onerror: () => reject(transaction.error) }));

function openDatabase() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => STORES.forEach((store) => request.result.createObjectStore(store));
  return finish(request);
}

/** Return the changes to the state that restore the session, or null if there is none. From now on it is this page's. */
export async function restore() {
  try {
    database = await openDatabase();
    const transaction = database.transaction(STORES, "readwrite");
    const [session, images, matches] = STORES.map((name) => transaction.objectStore(name));
    const [record, blobs, ids, found] = await Promise.all([finish(session.get("current")), finish(images.getAll()), finish(matches.getAllKeys()), finish(matches.getAll())]);
    session.put({ ...record, page }, "current");
    await complete(transaction);
    onChange(save);
    if (!record?.targets) return null;
    for (const [id, serverId] of record.serverIds) serverIds.set(id, serverId);
    blobs.forEach(({ id }) => written.images.add(id));
    ids.forEach((id, index) => written.matches.set(id, found[index]));
    const byId = new Map(blobs.map((image) => [image.id, image]));
    return {
      ...Object.fromEntries(KEPT.map((key) => [key, record[key]])),
      source: byId.get(record.source) ?? null,
      targets: record.targets.map((id) => byId.get(id)).filter(Boolean),
      found: Object.fromEntries(written.matches),
    };
  } catch (error) {
    report.problem(explain(error));
    return null;
  }
}

/** Of two pages with the same session, the one that was opened first. */
class TakenOver extends Error {}

const explain = (error) =>
  error instanceof TakenOver
    ? "This session was opened in another tab. Changes made here are not kept; reload the page to work here."
    : `This browser cannot keep your session (${error.name}). Download your points before you close the page.`;

async function save() {
  changed = true;
  if (writing || takenOver) return;
  writing = true;
  report.kept(false);
  let isKept = true;
  while (changed && !takenOver) {
    changed = false;
    await write().catch((error) => {
      isKept = false;
      takenOver = error instanceof TakenOver;
      report.problem(explain(error));
    });
  }
  writing = false;
  report.kept(isKept);
}

/** Write what has changed since the last time, all of it or nothing. */
async function write() {
  const transaction = database.transaction(STORES, "readwrite");
  const ended = complete(transaction);
  const [session, imageStore, matchStore] = STORES.map((name) => transaction.objectStore(name));
  if ((await finish(session.get("current")))?.page !== page) {
    transaction.abort();
    await ended.catch(() => {});
    throw new TakenOver();
  }
  const held = new Map(images().map((image) => [image.id, image]));
  for (const id of written.images) if (!held.has(id)) imageStore.delete(id);
  for (const [id, image] of held) if (!written.images.has(id)) imageStore.put(image, id);
  for (const id of written.matches.keys()) if (!held.has(id)) matchStore.delete(id);
  const matches = new Map([...held.keys()].filter((id) => state.found[id]).map((id) => [id, state.found[id]]));
  for (const [id, found] of matches) if (written.matches.get(id) !== found) matchStore.put(found, id);
  session.put(
    {
      ...Object.fromEntries(KEPT.map((key) => [key, state[key]])),
      page,
      source: state.source?.id,
      targets: state.targets.map(({ id }) => id),
      serverIds: [...serverIds],
    },
    "current",
  );
  await ended;
  written.images = new Set(held.keys());
  written.matches = matches;
}
