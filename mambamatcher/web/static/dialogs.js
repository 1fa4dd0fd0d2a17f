// Questions to the user.

import { signIn } from "./api.js";

const find = (selector) => document.querySelector(selector);

/** Ask before work is thrown away. Resolves to whether the user wants that. */
export function confirmLoss(question, action) {
  const dialog = find("#confirm");
  find("#confirm-question").textContent = question;
  find("#confirm-action").textContent = action;
  dialog.returnValue = "";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "confirmed"), { once: true });
    dialog.showModal();
  });
}

export function askForToken() {
  const dialog = find("#signin");
  const message = dialog.querySelector(".wrong");
  return new Promise((resolve) => {
    dialog.addEventListener("close", async function retry() {
      try {
        await signIn(find("#token").value);
        dialog.removeEventListener("close", retry);
        resolve();
      } catch (error) {
        message.textContent = error.message;
        dialog.showModal();
      }
    });
    dialog.showModal();
  });
}
