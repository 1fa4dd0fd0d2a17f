// Requests to the server, one function each. Retries while the server is busy; failures become errors with a message.

const RETRY_SECONDS = 60; // how long to retry while the server is busy

/** Called with a message while a request waits for the server, and with "" afterwards. */
export const waiting = { show: () => {} };
/** Called when the server requires its token; resolves once the user has signed in. */
export const access = { ask: async () => {} };

export class RequestError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function request(path, options = {}) {
  const end = Date.now() + RETRY_SECONDS * 1000;
  for (;;) {
    const response = await fetch(path, { credentials: "same-origin", ...options }).catch(() => {
      throw new RequestError("The server does not respond. Is it still running?", 0);
    });
    if (response.ok) {
      waiting.show("");
      return response;
    }
    if (response.status === 503 && response.headers.has("Retry-After") && Date.now() < end) {
      waiting.show("The server is busy. Retrying…");
      await new Promise((resolve) => setTimeout(resolve, 1000 * Number(response.headers.get("Retry-After"))));
    } else if (response.status === 401 && path !== "/signin") {
      await access.ask();
    } else {
      waiting.show("");
      const body = await response.json().catch(() => ({}));
      throw new RequestError(toSentence(body.detail ?? `The server responded with status ${response.status}.`), response.status);
    }
  }
}

function toSentence(text) {
  const start = /^[a-z]+\s/.test(text) ? text.charAt(0).toUpperCase() : text.charAt(0); // a file name keeps its case
  return start + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

export function send(method, path, content) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method, headers, body: JSON.stringify(content) });
}

const post = (path, content) => send("POST", path, content);
export const json = (response) => response.json();

export const listModels = () => request("/models").then(json);
export const signIn = (token) => post("/signin", { token });
export const addExample = () => oneByOne(() => request("/example", { method: "POST" }).then(json));
export const removeImage = (id) => request(`/pictures/${id}`, { method: "DELETE" });
export const fetchImage = (id) => request(`/pictures/${id}`).then((response) => response.blob());
export const matchPair = (pair) => post("/pairs/match", pair).then(json);
export const drawPair = (drawing) => post("/drawing", drawing);

/** Upload an image. Of a copy, `width` and `height` are those of the original. */
export function addImage(file, { name, width, height }) {
  const form = new FormData();
  form.append("picture", file, name);
  if (width) form.append("width", width);
  if (height) form.append("height", height);
  return oneByOne(() => request("/pictures", { method: "POST", body: form }).then(json));
}

let last = Promise.resolve();

/** Run uploads one after the other: the first one starts the session that the others belong to. */
function oneByOne(upload) {
  const result = last.then(upload);
  last = result.catch(() => {});
  return result;
}
