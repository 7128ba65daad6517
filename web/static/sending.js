// What is asked of the model: a message, the last one again, another one in its place.

import * as api from "./api.js";
import { attempt } from "./attempt.js";
import { readAgain } from "./attachments.js";
import { newKey } from "./dom.js";
import { chosenModel } from "./models.js";
import { toast } from "./toast.js";

const RUNNING = "An answer is already running here.";

export class Sending {
  isBusy = false; // a message is on its way

  // `page`: opened, composer, sent(id), changed().
  constructor(page) {
    this.page = page;
  }

  async submit() {
    const { composer, sent, changed } = this.page;
    if (!composer.message || this.isBusy) return;
    this.isBusy = true;
    composer.sending(true);
    const letter = composer.letter();
    try {
      await this.#deliver(letter);
      composer.sent(letter);
      sent(letter.slot);
    } catch (error) {
      this.#notDelivered(letter, error);
    } finally {
      this.isBusy = false;
      composer.sending(false);
      changed();
    }
  }

  async #deliver(letter) {
    const { opened, composer } = this.page;
    const request = { ...letter, model: chosenModel() };
    if (opened.conversation) return opened.conversation.send(request);
    const session = await api.createSession();
    composer.adopt(letter, session.id);
    // somebody may have turned to another conversation meanwhile
    if (opened.conversation) return api.startTurn(session.id, { ...request, detached: true });
    return opened.adopt(session).send(request);
  }

  // The text stays where it was typed, with what became of it.
  #notDelivered(letter, error) {
    const { opened, composer } = this.page;
    if (error instanceof api.Unreachable) {
      composer.notSent(letter, "Not sent: the server cannot be reached. Send it again when it is back.", { mayHaveArrived: true });
    } else if (error instanceof api.Refused && error.code === "turn_in_flight") {
      toast(`${RUNNING} Your text is kept.`);
      composer.notSent(letter, "", { mayHaveArrived: false });
      opened.conversation?.sync();
    } else if (error instanceof api.Refused) {
      const why = error.status === 413 ? "it is too large, with its files" : error.message;
      composer.notSent(letter, `Not sent: ${why}`, { mayHaveArrived: false });
    } else throw error;
  }

  // The last message once more; `mode` is "again" or "continue".
  retry(mode) {
    const { conversation } = this.page.opened;
    return attempt(async () => {
      try {
        await conversation.send({ mode, key: newKey(), model: chosenModel() });
        this.page.sent(conversation.id);
      } catch (error) {
        if (!(error instanceof api.Refused) || error.status !== 409) throw error;
        toast(error.code === "turn_in_flight" ? RUNNING : error.message);
        await conversation.sync();
      }
    });
  }

  // The same message, or another one in its place, in a new conversation that holds all that came before it.
  resend(turn, message) {
    return attempt(async () => {
      if (!turn.user) return;
      const files = await Promise.all((turn.user.attachments ?? []).map(readAgain));
      const at = await this.#branchAt(turn.user.seq - 1);
      await at.send({ message, key: newKey(), attachments: files.filter((file) => file?.name), model: chosenModel() });
      this.page.sent(at.id);
    });
  }

  branch(seq) {
    return attempt(() => this.#branchAt(seq));
  }

  async #branchAt(seq) {
    const { opened } = this.page;
    return opened.turnTo(await api.createSession({ from: { session_id: opened.id, seq } }));
  }
}
