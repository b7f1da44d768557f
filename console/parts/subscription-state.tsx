// The state of a webhook subscription in a word.
import type { State } from '../api/webhooks.ts';
import { Badge, type Tone } from './badge.tsx';

const WORDS: Record<State, [tone: Tone, word: string]> = {
  failing: ['bad', 'failing'],
  quota: ['warn', 'waits for its quota'],
  off: ['neutral', 'off'],
  ok: ['ok', 'ok'],
  idle: ['neutral', 'nothing sent yet'],
};

export function SubscriptionState({ state }: { state: State }) {
  const [tone, word] = WORDS[state];
  return <Badge tone={tone}>{word}</Badge>;
}
