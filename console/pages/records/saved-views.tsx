// The saved views of an entity: choose one, save the present filter as one, bring the chosen one up to date. A view keeps
// its condition in the service, for everybody who may read it; the sort and the columns that go with it are kept in this
// browser, and the link carries all of it.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { post, put } from '../../api/call.ts';
import { problemsByField } from '../../api/errors.ts';
import { keyOf } from '../../api/queries.ts';
import { conditionOf, type View, viewsQuery } from '../../api/views.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { go } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextField } from '../../parts/field.tsx';
import { MenuButton } from '../../parts/menu-button.tsx';
import { sayError, saySuccess } from '../../parts/toast.tsx';
import { keyFrom } from '../../schema/attributes.ts';

type Shown = Record<'view' | 'filters' | 'sort' | 'cols', string>;

interface Props {
  entity: Entity;
  link: Shown;
  setLink: (patch: Partial<Record<keyof Shown, string | null>>) => void;
  /** The role may read no more than the views. */
  isViewOnly: boolean;
}

export function SavedViews({ entity, link, setLink, isViewOnly }: Props) {
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const block = useWriteBlock();
  const client = useQueryClient();
  const [isSaving, setSaving] = useState(false);
  const { data: all = [] } = useQuery(viewsQuery(tenant));
  const views = all.filter(({ entitySlug }) => entitySlug === entity.name);
  const chosen = views.find(({ slug }) => slug === link.view);
  const canWrite = rights.isAdmin && block === null;
  const choose = (view: View | null): void =>
    setLink({
      view: view?.slug ?? null,
      filters: null,
      sort: null,
      cols: null,
      ...(view && layoutOf(tenant, view.slug)),
    });
  const update = async (view: View): Promise<void> => {
    try {
      if (link.filters !== '') {
        const filterDsl = { validate: [...view.filterDsl.validate, { condition: link.filters }] };
        await put(`/api/views/${view.slug}`, { filterDsl }, { tenant });
        await client.invalidateQueries({ queryKey: keyOf(tenant, 'views') });
      }
      keepLayout(tenant, view.slug, link);
      setLink({ filters: null });
      saySuccess({ title: `${view.name} was updated.` });
    } catch (cause) {
      sayError({ title: `${view.name} was not updated.`, description: (cause as Error).message });
    }
  };
  const name = link.view === '' ? 'All records' : (chosen?.name ?? link.view);
  return (
    <>
      <MenuButton
        label={chosen === undefined ? 'Views' : `View ${chosen.name}: ${conditionOf(chosen) || 'all records'}`}
        icon="bookmark"
        choices={[
          ...(isViewOnly
            ? []
            : [{ key: 'all', label: 'All records', ...mark(link.view === ''), onSelect: () => choose(null) }]),
          ...views.map((view) => ({
            key: `view ${view.slug}`,
            label: view.name,
            ...mark(view === chosen),
            onSelect: () => choose(view),
          })),
          ...(chosen !== undefined && (link.filters === '' || canWrite)
            ? [
                {
                  key: 'update',
                  label: `${link.filters === '' ? 'Keep sort and columns with' : 'Add the filter to'} ${chosen.name}`,
                  icon: 'pencil' as const,
                  onSelect: () => void update(chosen),
                },
              ]
            : []),
          ...(canWrite
            ? [{ key: 'save', label: 'Save as a view…', icon: 'plus' as const, onSelect: () => setSaving(true) }]
            : []),
          ...(isViewOnly
            ? []
            : [
                {
                  key: 'deleted',
                  label: 'Deleted records',
                  icon: 'trash-2' as const,
                  onSelect: () => go(`/app/t/${tenant}/records/${entity.name}/deleted`),
                },
              ]),
        ]}
      >
        <span className="ellipsis">{name}</span>
      </MenuButton>
      {isSaving && (
        <SaveView
          entity={entity}
          condition={[chosen === undefined ? '' : conditionOf(chosen), link.filters].filter(Boolean)}
          onSaved={async (view) => {
            keepLayout(tenant, view.slug, link);
            await client.invalidateQueries({ queryKey: keyOf(tenant, 'views') });
            setLink({ view: view.slug, filters: null });
          }}
          onClose={() => setSaving(false)}
        />
      )}
    </>
  );
}

function mark(isChosen: boolean): { icon?: 'check' } {
  return isChosen ? { icon: 'check' } : {};
}

interface SaveProps {
  entity: Entity;
  /** All must hold. */
  condition: readonly string[];
  onSaved: (view: View) => Promise<void>;
  onClose: () => void;
}

function SaveView({ entity, condition, onSaved, onClose }: SaveProps) {
  const { tenant } = useParams();
  const [name, setName] = useState('');
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const problems = problemsByField(failure);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      const slug = keyFrom(name).replaceAll('_', '-');
      const filterDsl = { validate: condition.map((text) => ({ condition: text })) };
      const view = await post<View>(
        '/api/views',
        { name: name.trim(), slug, entitySlug: entity.name, filterDsl },
        { tenant },
      );
      await onSaved(view);
      saySuccess({ title: `${view.name} was saved.` });
      onClose();
    } catch (cause) {
      setFailure(cause);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title="Save as a view"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="save-view" busy={busy}>
            Save
          </Button>
        </>
      }
    >
      <form id="save-view" className="stack" noValidate onSubmit={(event) => void submit(event)}>
        {failure !== null && problems.name === undefined && problems.slug === undefined && (
          <ErrorPanel title="Nothing was saved." error={failure} />
        )}
        <TextField
          label="Name"
          value={name}
          error={problems.name ?? problems.slug}
          onChange={(event) => setName(event.target.value)}
        />
        <p>
          It holds {condition.length === 0 ? 'all records' : <code>{condition.join(' AND ')}</code>}. Roles with the
          right to read the view see it; sort and columns stay in this browser and in the link.
        </p>
      </form>
    </Dialog>
  );
}

const layoutKey = (tenant: string, slug: string): string => `svc.view.${tenant}.${slug}`;

function keepLayout(tenant: string, slug: string, { sort, cols }: Shown): void {
  try {
    localStorage.setItem(layoutKey(tenant, slug), JSON.stringify({ sort, cols }));
  } catch {
    // The link has them, too.
  }
}

function layoutOf(tenant: string, slug: string): { sort: string; cols: string } {
  try {
    const { sort, cols } = JSON.parse(localStorage.getItem(layoutKey(tenant, slug)) ?? '{}');
    return { sort: String(sort ?? ''), cols: String(cols ?? '') };
  } catch {
    return { sort: '', cols: '' };
  }
}
