// Why nothing can be written now; null when it can. For `disabledReason` of buttons that write.
import { online, seenAs } from '../api/call.ts';
import { useStore } from '../api/store.ts';

export function useWriteBlock(): string | null {
  const isOnline = useStore(online);
  const role = useStore(seenAs);
  if (!isOnline) return 'No connection. Changes wait until it is back.';
  return role === null ? null : `You are viewing this tenant as ${role}. Stop to make changes.`;
}
