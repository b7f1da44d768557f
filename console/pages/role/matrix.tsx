// The matrix of a role while it is edited: a draft beside what is stored, the difference in words, "Save" and "Discard".
import { useQuery } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';
import { PermissionGrid } from '../../access/permission-grid.tsx';
import { type Operation, type Role, toggled } from '../../access/permissions.ts';
import { useResources } from '../../access/queries.ts';
import { patch } from '../../api/call.ts';
import { problemsByField } from '../../api/errors.ts';
import { entitiesQuery, keyOf, queryClient } from '../../api/queries.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { type Draft, sentences, visible, withRestriction } from './draft.ts';
import { Limits } from './limits.tsx';

const MANY = 12;
/** Rows that are drawn at first, and with each "Show more": a matrix of a thousand takes long to draw. */
const STEP = 100;

export function Matrix({ tenant, role, isReadOnly }: { tenant: string; role: Role; isReadOnly: boolean }) {
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const stored: Draft = role;
  const [draft, setDraft] = useState<Draft>({ permissions: role.permissions, entities: role.entities });
  const [open, setOpen] = useState<string | null>(null);
  const [search, setSearch] = useState('');
  const [failure, setFailure] = useState<unknown>(null);
  const [most, setMost] = useState(STEP);
  const named = { ...role.permissions, ...asResources(role.entities) };
  const all = useResources(tenant, named);
  // In a long matrix, the rows for all and what the role names come first, the rest on demand.
  const rank = (name: string): number => (name.endsWith('*') ? 0 : name in named ? 1 : 2);
  const resources = all.length > STEP ? all.toSorted((a, b) => rank(a) - rank(b)) : all;
  const matching = resources.filter((name) => name.toLowerCase().includes(search.trim().toLowerCase()));
  const byName = useMemo(() => new Map(entities.map((entity) => [entity.name, entity])), [entities]);
  const keysOfEntity = (name: string): string[] => byName.get(name)?.fields.map(({ key }) => key) ?? [];
  const changes = sentences(stored, draft, role.name, keysOfEntity);
  usePageTitle(`Role ${role.name}`, changes.length > 0);
  const toggle = useCallback((resource: string, operation: Operation) => {
    setDraft((before) => ({ ...before, permissions: toggled(before.permissions, resource, operation) }));
  }, []);
  const show = useCallback((name: string) => setOpen((before) => (before === name ? null : name)), []);
  const limits = [
    {
      key: 'fields',
      header: 'fields',
      text: (name: string) => {
        const keys = keysOfEntity(name);
        if (!byName.has(name)) return null;
        const count = visible(draft.entities[name], keys).length;
        return count === keys.length ? 'all' : `${count}/${keys.length}`;
      },
    },
    {
      key: 'rows',
      header: 'rows',
      text: (name: string) =>
        byName.has(name) ? (draft.entities[name]?.rowFilter ?? 'all').replace(/\s+/g, ' ') : null,
    },
  ];
  const problems = problemsByField(failure);
  const panel = (name: string) => {
    const entity = byName.get(name);
    if (entity === undefined) return null;
    return (
      <Limits
        {...{ tenant, role: role.name, entity, isReadOnly }}
        restriction={draft.entities[name] ?? {}}
        refused={problems[`entities.${name}.rowFilter`]}
        onChange={(next) => setDraft((before) => withRestriction(before, name, next))}
      />
    );
  };
  return (
    <>
      {resources.length > MANY && (
        <input
          className="input narrow"
          type="search"
          aria-label="Search"
          placeholder={`Search in ${resources.length} rows`}
          value={search}
          data-hotkey="/"
          onChange={(event) => setSearch(event.target.value)}
        />
      )}
      <PermissionGrid
        label={`What ${role.name} may do`}
        resources={matching.slice(0, most)}
        permissions={draft.permissions}
        onToggle={toggle}
        {...{ isReadOnly, limits, open, panel }}
        onOpen={show}
      />
      {matching.length > most && (
        <div className="row">
          <Button onClick={() => setMost(most + STEP)}>Show {Math.min(STEP, matching.length - most)} more</Button>
          <span className="caption num">
            {most} of {matching.length} rows
          </span>
        </div>
      )}
      <Changes
        {...{ changes, failure, isReadOnly }}
        onDiscard={() => {
          setDraft({ permissions: role.permissions, entities: role.entities });
          setFailure(null);
        }}
        onSave={async () => {
          setFailure(null);
          await save(tenant, role.name, draft).catch(setFailure);
        }}
      />
    </>
  );
}

const asResources = (entities: Role['entities']): Record<string, never[]> =>
  Object.fromEntries(Object.keys(entities).map((name) => [name, []]));

async function save(tenant: string, name: string, { permissions, entities }: Draft): Promise<void> {
  const role = await patch<Role>(`/api/roles/${encodeURIComponent(name)}`, { permissions, entities }, { tenant });
  queryClient.setQueryData(keyOf(tenant, 'roles', name), role);
  saySuccess({
    title: `Saved. It takes effect within a second, in open sessions and streams too.`,
    kind: 'role-saved',
  });
  await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'roles') });
}

interface ChangesProps {
  changes: readonly string[];
  failure: unknown;
  isReadOnly: boolean;
  onDiscard: () => void;
  onSave: () => Promise<void>;
}

function Changes({ changes, failure, isReadOnly, onDiscard, onSave }: ChangesProps) {
  const [busy, setBusy] = useState(false);
  if (isReadOnly) return null;
  if (changes.length === 0)
    return <p className="caption">A check mark is granted here; * is granted by the row for all.</p>;
  const save = async (): Promise<void> => {
    setBusy(true);
    await onSave();
    setBusy(false);
  };
  return (
    <section className="panel role-changes" aria-label="Unsaved changes">
      <div role="status">
        <ul>
          {changes.map((change) => (
            <li key={change}>{change}</li>
          ))}
        </ul>
      </div>
      {failure !== null && <ErrorPanel title="Nothing was saved." error={failure} />}
      <div className="row">
        <Button kind="primary" busy={busy} onClick={save}>
          Save
        </Button>
        <Button onClick={onDiscard}>Discard</Button>
      </div>
    </section>
  );
}
