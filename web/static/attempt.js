// What somebody wanted from the server: done, or said why not.

import { Refused, Unreachable } from "./api.js";
import { toast } from "./toast.js";

// Whether the server, or the way to it, said no; any other error is a fault of the page.
export const isNo = (error) => error instanceof Refused || error instanceof Unreachable;

export function refused(error) {
  if (error.status !== 401) toast(error.message); // else the page turns to the sign-in
}

// Resolves to what `act` gives, or to undefined after the words why not.
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    if (!isNo(error)) throw error;
    refused(error);
  }
}
