// The status of a delivery in a word.
import { type Delivery, isFailing } from '../../api/webhooks.ts';
import { Badge } from '../../parts/badge.tsx';

export function DeliveryStatus({ of }: { of: Delivery }) {
  if (of.status === 'delivered') return <Badge tone="ok">delivered</Badge>;
  if (of.status === 'failed') return <Badge tone="bad">failed</Badge>;
  return isFailing(of) ? <Badge tone="warn">retrying</Badge> : <Badge>pending</Badge>;
}
