// Talking to the server: one function a request. A busy server is asked again; problems become errors with a sentence.

const PATIENCE = 60; // seconds of "busy" before giving up

/** Called with what to tell the user while waiting, and with "" after. */
export const waiting = { tell: () => {} };
/** Called when the server asks for its token; resolves once there is a session. */
export const access = { ask: async () => {} };

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const end = Date.now() + PATIENCE * 1000;
  for (;;) {
    const answer = await fetch(path, { credentials: "same-origin", ...options }).catch(() => {
      throw new Problem("The server does not answer. Is it still running?", 0);
    });
    if (answer.ok) {
      waiting.tell("");
      return answer;
    }
    if (answer.status === 503 && answer.headers.has("Retry-After") && Date.now() < end) {
      waiting.tell("The server is busy. Waiting for a free place…");
      await new Promise((resolve) => setTimeout(resolve, 1000 * Number(answer.headers.get("Retry-After"))));
    } else if (answer.status === 401 && path !== "/signin") {
      await access.ask();
    } else {
      waiting.tell("");
      const body = await answer.json().catch(() => ({}));
      throw new Problem(sentence(body.detail ?? `The server answered ${answer.status}.`), answer.status);
    }
  }
}

function sentence(text) {
  const start = /^[a-z]+\s/.test(text) ? text.charAt(0).toUpperCase() : text.charAt(0); // a file's name stays as it is
  return start + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

function post(path, content) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(content) });
}

const json = (answer) => answer.json();

export const listModels = () => request("/models").then(json);
export const signIn = (token) => post("/signin", { token });
export const addExample = () => inTurn(() => request("/example", { method: "POST" }).then(json));
export const removePicture = (id) => request(`/pictures/${id}`, { method: "DELETE" });
export const pictureAddress = (id) => `/pictures/${id}`;
export const matchPair = (asked) => post("/pairs/match", asked).then(json);
export const writePoints = (format, pictures) => post(`/points/${format}`, { pictures });
export const drawPair = (asked) => post("/drawing", asked);

export function addPicture(file) {
  const form = new FormData();
  form.append("picture", file, file.name);
  return inTurn(() => request("/pictures", { method: "POST", body: form }).then(json));
}

let last = Promise.resolve();

/** One after the other: the first picture starts the session that the next ones belong to. */
function inTurn(work) {
  const result = last.then(work);
  last = result.catch(() => {});
  return result;
}
