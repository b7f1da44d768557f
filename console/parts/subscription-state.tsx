// The state of a webhook subscription in a word.
import type { State } from '../api/webhooks.ts';
import { Badge, type Tone } from './badge.tsx';

const WORDS: Record<State, [tone: Tone, word: string]> = {
  failing: ['bad', 'failing'],
  quota_exceeded: ['warn', 'waits for its quota'],
  disabled: ['neutral', 'off'],
  ok: ['ok', 'ok'],
};

/** `isBroken`: the service has switched it off. */
export function SubscriptionState({ state, isBroken = false }: { state: State; isBroken?: boolean }) {
  const [tone, word] = WORDS[state];
  if (state === 'disabled' && isBroken) return <Badge tone="bad">disabled</Badge>;
  return <Badge tone={tone}>{word}</Badge>;
}
