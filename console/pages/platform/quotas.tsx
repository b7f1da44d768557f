// The quotas of a tenant, changed by an operator. An empty field is no limit.
import { type FormEvent, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextField } from '../../parts/field.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { saySuccess } from '../../parts/toast.tsx';
import type { OperatedTenant } from './shapes.ts';
import { changeTenant } from './tenant-panel.tsx';

const NAMES: Readonly<Record<string, string>> = {
  records: 'Records',
  storageBytes: 'Stored bytes',
  users: 'People',
  requestsPerMin: 'Requests a minute',
  writesPerMin: 'Writes a minute',
  deliveriesPerDay: 'Webhook deliveries a day',
  streams: 'Streams at once',
  sockets: 'WebSockets at once',
};

export function Quotas({ tenant, block }: { tenant: OperatedTenant; block: string | null }) {
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const { busy, failure, problems, submit } = useSubmit();
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const read = Object.entries(typed).map(([quota, text]) => [quota, limitOf(text)] as const);
    const bad = read.filter(([, limit]) => limit === undefined).map(([quota]) => quota);
    setWrong(Object.fromEntries(bad.map((quota) => [quota, 'must be a whole number, or empty for no limit'])));
    if (bad.length > 0) return;
    if (!(await submit(() => changeTenant(tenant.slug, { quotas: Object.fromEntries(read) })))) return;
    setTyped({});
    saySuccess({
      title: `The quotas of ${tenant.slug} were saved.`,
      description: 'They take effect within a second, in every process.',
    });
  };
  const isChanged = Object.keys(typed).length > 0;
  return (
    <section aria-labelledby="tenant-quotas">
      <form className="stack" noValidate onSubmit={save}>
        <h3 id="tenant-quotas">Quotas</h3>
        <div className="platform-quotas">
          {Object.keys(tenant.quotas).map((quota) => (
            <TextField
              key={quota}
              label={NAMES[quota] ?? quota}
              inputMode="numeric"
              placeholder="no limit"
              value={typed[quota] ?? tenant.quotas[quota]?.toLocaleString('en') ?? ''}
              error={wrong[quota] ?? problems[`quotas.${quota}`]}
              onChange={({ target }) => setTyped({ ...typed, [quota]: target.value })}
            />
          ))}
        </div>
        {failure !== null && <ErrorPanel title="The quotas were not saved." error={failure} />}
        <div>
          <Button type="submit" busy={busy} disabledReason={block ?? (isChanged ? null : 'Nothing was changed')}>
            Save quotas
          </Button>
        </div>
      </form>
    </section>
  );
}

/** Null for no limit; undefined for text that is no whole number. Separators are understood. */
function limitOf(text: string): number | null | undefined {
  const digits = text.replace(/[\s,_']/g, '');
  if (digits === '') return null;
  const limit = Number(digits);
  return /^\d+$/.test(digits) && Number.isSafeInteger(limit) ? limit : undefined;
}
