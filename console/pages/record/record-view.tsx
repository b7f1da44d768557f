// The page of a record that was read: its head with the way to its neighbours, and its tabs. The edits live here, so that
// another tab keeps them.
import { lazy, Suspense, useEffect, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { patch } from '../../api/call.ts';
import { queryClient } from '../../api/queries.ts';
import { useChanges } from '../../api/use-changes.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { go, Link } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { useNeighbours } from '../../grid/neighbours.ts';
import { titles } from '../../grid/titles.ts';
import { CodeBlock } from '../../parts/code-block.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { sayError, saySuccess } from '../../parts/toast.tsx';
import { titleOf } from '../../parts/value.ts';
import { type Saved, useDraft, type Version } from './draft.ts';
import { LeaveGuard } from './leave-guard.tsx';
import { RecordForm } from './record-form.tsx';
import { Related } from './related.tsx';

const History = lazy(() => import('../../history/history.tsx'));

interface Props {
  entity: Entity;
  /** As the service has it now. */
  read: Version;
  isGone: boolean;
  /** Reads the record again. */
  onRead: () => void;
}

export function RecordView({ entity, read, isGone: isMissing, onRead }: Props) {
  const { tenant, id } = useParams();
  const rights = useRights(tenant);
  const block = useWriteBlock();
  const draft = useDraft(tenant, entity, read);
  const { row } = draft.base;
  const title = titleOf(row, entity.fields);
  usePageTitle(title, draft.isDirty);
  const [isDeleted, setIsDeleted] = useState(false);
  const isGone = isMissing || isDeleted;
  useChanges(tenant, entity.name, {
    onChange: (change) => {
      if (change.id !== id) return;
      setIsDeleted(change.type === 'deleted');
      if (change.type !== 'deleted') onRead();
    },
    onOpen: (isAgain) => isAgain && onRead(),
  });
  const isBehind = read.etag !== draft.base.etag && read.row.updatedAt > row.updatedAt;
  const { isDirty, discard } = draft;
  // Without edits the form shows what others wrote; with edits it says so and keeps them.
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when another version was read
  useEffect(() => {
    if (isBehind && !isDirty) discard(read);
  }, [read, isBehind, isDirty]);
  const done = (saved: Saved | null): void => {
    if (saved === null) return;
    titles.forget(tenant, entity.name, id);
    const meanwhile = saved.others.filter((key) => entity.fields.some((field) => field.key === key));
    saySuccess({
      title: meanwhile.length === 0 ? 'Saved.' : `Saved. Someone else changed ${meanwhile.join(', ')} meanwhile.`,
      kind: 'saved',
      undo: () => void undo(saved),
    });
    onRead();
  };
  const undo = async ({ before, after }: Saved): Promise<void> => {
    try {
      const headers: Record<string, string> = after.etag === null ? {} : { 'If-Match': after.etag };
      await patch(`/api/entities/${entity.name}/records/${id}`, before, { tenant, headers });
      saySuccess({ title: 'Undone.', kind: 'undone' });
    } catch {
      sayError({ title: 'Not undone: someone changed this record after you.', kind: 'undone' });
    }
    onRead();
  };
  const back = `/app/t/${tenant}/records/${entity.name}`;
  const onDeleted = (): void => {
    discard();
    // Not read again here: this record is gone.
    void queryClient.invalidateQueries({ refetchType: 'none' });
    // When the edits are gone, so that leaving asks nothing.
    setTimeout(() => go(back));
  };
  const mayChange = rights.may('update', entity.name);
  const form = (
    <RecordForm
      {...{ entity, draft, onDeleted }}
      block={isGone ? 'This record was deleted.' : mayChange ? block : `Your role ${rights.role} may not change it.`}
      deleteBlock={rights.may('delete', entity.name) ? (isGone ? 'This record was deleted.' : block) : undefined}
      onSave={async () => done(await draft.save())}
      onChoose={async (key, whose) => done(await draft.choose(key, whose))}
      by={read.row.updatedBy}
    />
  );
  const history = (): React.ReactNode => (
    <Suspense fallback={<Skeleton />}>
      <History
        {...{ entity, id }}
        row={isGone ? null : read.row}
        seen={`${read.etag} ${isGone}`}
        onRestored={() => {
          setIsDeleted(false);
          onRead();
        }}
      />
    </Suspense>
  );
  const json = (): React.ReactNode => <CodeBlock label="JSON" text={JSON.stringify(row, null, 2)} />;
  return (
    <div className="page record">
      <div className="page-head">
        <h1 className="ellipsis">{title}</h1>
        <div className="row">
          <CopyAsCurl of={({ path, method }) => method !== 'POST' && path.endsWith(`/records/${id}`)} />
          <Steps entity={entity} />
        </div>
      </div>
      {isGone && (
        <Notice tone="warn" action={<Link href={`${back}/${id}?tab=history`}>Restore…</Link>}>
          This record was deleted in the meantime. You see its last state.
        </Notice>
      )}
      {!isGone && isBehind && isDirty && (
        <Notice>{read.row.updatedBy ?? 'Someone else'} changed this record. Your edits are kept.</Notice>
      )}
      <Tabs
        label={`Parts of ${title}`}
        tabs={[
          { key: 'form', label: 'Form', content: () => form },
          { key: 'related', label: 'Related', content: () => <Related entity={entity} row={row} /> },
          { key: 'history', label: 'History', content: history },
          { key: 'json', label: 'JSON', content: json },
        ]}
      />
      <LeaveGuard isDirty={isDirty && !isGone} what={title} />
    </div>
  );
}

/** The way to the previous and the next record of the list that this one was opened from. */
function Steps({ entity }: { entity: Entity }) {
  const { tenant, id } = useParams();
  const { previous, next, place, total } = useNeighbours(tenant, entity.name, id);
  if (place === null) return null;
  const hrefOf = (one: string): string => `/app/t/${tenant}/records/${entity.name}/${one}`;
  return (
    <nav className="row record-steps" aria-label="Previous and next record">
      <span className="caption num">
        {place.toLocaleString('en')}
        {total === null ? '' : ` of ${total.toLocaleString('en')}`}
      </span>
      {previous !== null && (
        <Link className="button quiet only-icon" href={hrefOf(previous)} aria-label="Previous record" title="Previous">
          <Icon name="chevron-left" />
        </Link>
      )}
      {next !== null && (
        <Link className="button quiet only-icon" href={hrefOf(next)} aria-label="Next record" title="Next">
          <Icon name="chevron-right" />
        </Link>
      )}
    </nav>
  );
}
