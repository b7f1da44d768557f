// What is stored now, against the quotas that limit it. Quotas of rates are named with their limit alone: the API does
// not tell how much of a running minute is used.
import { Meter } from '../../parts/meter.tsx';
import { bytes } from '../../parts/value.ts';
import type { Usage } from './shapes.ts';

interface Props {
  usage: Usage;
  quotas: Record<string, number | null>;
}

const RATES: readonly [quota: string, text: string][] = [
  ['requestsPerMin', 'requests a minute'],
  ['writesPerMin', 'writes a minute'],
  ['deliveriesPerDay', 'webhook deliveries a day'],
  ['streams', 'streams at once'],
  ['sockets', 'WebSockets at once'],
];

export function QuotaBars({ usage: { now }, quotas }: Props) {
  const records = Object.values(now.records).reduce((sum, count) => sum + count, 0);
  const stored = [
    { key: 'records', name: 'Records', used: records, shown: undefined },
    { key: 'storageBytes', name: 'Stored', used: now.storageBytes, shown: bytes },
    { key: 'users', name: 'People', used: now.users, shown: undefined },
  ];
  const rates = RATES.flatMap(([quota, text]) => {
    const limit = quotas[quota];
    return limit == null ? [] : [`${limit.toLocaleString('en')} ${text}`];
  });
  return (
    <section className="panel" aria-labelledby="usage-now">
      <header>
        <h2 id="usage-now">Now</h2>
      </header>
      <dl className="usage-now">
        {stored.map(({ key, name, used, shown }) => {
          const limit = quotas[key] ?? null;
          return (
            <div key={key}>
              <dt>{name}</dt>
              <dd className="num">{shown?.(used) ?? used.toLocaleString('en')}</dd>
              <dd>
                {limit === null ? (
                  <span className="caption">no limit</span>
                ) : (
                  <Meter used={used} limit={limit} {...(shown === undefined ? {} : { shown })} />
                )}
              </dd>
            </div>
          );
        })}
      </dl>
      {rates.length > 0 && <p className="caption usage-rates">At most {rates.join(', ')}.</p>}
    </section>
  );
}
