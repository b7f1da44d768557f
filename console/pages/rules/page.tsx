// Rules: what happens by itself before and after changes. Listed in the order in which they run, made and changed with the
// builder, tried on a record, switched on and off, deleted.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { del, get, patch } from '../../api/call.ts';
import { entitiesQuery, keyOf } from '../../api/queries.ts';
import { NoRight } from '../../app/no-right.tsx';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Link, useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel, sentenceOf } from '../../parts/error-panel.tsx';
import { LongTable } from '../../parts/long-table.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { sayError, saySuccess } from '../../parts/toast.tsx';
import { LastRun, useLastRuns } from './last-run.tsx';
import { type Rule, sayAction, TRIGGERS } from './rule.ts';
import { RuleForm } from './rule-form.tsx';
import { TryRule } from './try-rule.tsx';

const rulesQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'rules'),
    queryFn: ({ signal }) => get<Rule[]>('/api/rules', { tenant, signal }),
  });

export default function Rules() {
  usePageTitle('Rules');
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const block = useWriteBlock();
  const client = useQueryClient();
  const [link, setLink] = useUrlState({ new: '', edit: '', try: '' });
  const [deleted, choose] = useState<Rule | null>(null);
  const { data, error, refetch } = useQuery(rulesQuery(tenant));
  const { data: entities } = useQuery(entitiesQuery(tenant));
  const runs = useLastRuns(tenant);
  if (rights.me !== undefined && !rights.isAdmin) return <NoRight what="see the rules" role={rights.role} />;
  const edited = data?.find(({ id }) => id === link.edit);
  const tried = data?.find(({ id }) => id === link.try);
  const triedEntity = entities?.find(({ name }) => name === tried?.entity);
  const refresh = () => client.invalidateQueries({ queryKey: keyOf(tenant, 'rules') });
  const close = (): void => setLink({ new: null, edit: null, try: null }, { replace: true });
  const remove = async (rule: Rule): Promise<void> => {
    await del(`/api/rules/${rule.id}`, { tenant });
    await refresh();
    saySuccess({ title: `${rule.name} was deleted.` });
  };
  const toggle = async ({ id, name, isActive }: Rule): Promise<void> => {
    try {
      await patch(`/api/rules/${id}`, { isActive: !isActive }, { tenant });
      saySuccess({ title: `${name} is ${isActive ? 'off' : 'on'}.`, kind: `rule ${id}` });
    } catch (cause) {
      sayError({ title: sentenceOf(cause) });
    }
    await refresh();
  };
  const make = (
    <Button
      kind="primary"
      icon="plus"
      data-hotkey="n"
      disabledReason={entities?.length === 0 ? 'Create an entity first.' : block}
      onClick={() => setLink({ new: '1' })}
    >
      New rule
    </Button>
  );
  const actions = (rule: Rule) => (
    <>
      <Button kind="quiet" icon="play" aria-label={`Try ${rule.name}`} onClick={() => setLink({ try: rule.id })} />
      <Button
        kind="quiet"
        icon="pencil"
        aria-label={`Edit ${rule.name}`}
        disabledReason={block}
        onClick={() => setLink({ edit: rule.id })}
      />
      <Button
        kind="quiet"
        icon="trash-2"
        aria-label={`Delete ${rule.name}`}
        disabledReason={block}
        onClick={() => choose(rule)}
      />
    </>
  );
  return (
    <div className="page">
      <div className="page-head">
        <h1>Rules</h1>
        <div className="row">
          <Link className="button plain" href={`/app/t/${tenant}/live?search=rule.`}>
            Watch rules live
          </Link>
          <CopyAsCurl of={({ path }) => path.startsWith('/api/rules')} />
          {data?.length !== 0 && make}
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the rules." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.length === 0 && (
        <Empty icon="workflow" action={make}>
          Rules refuse changes, set values, or follow up on changes automatically.
        </Empty>
      )}
      {data !== undefined && data.length > 0 && (
        <>
          <p className="caption">Runs show here as they happen while this page is open.</p>
          <LongTable
            caption="Rules"
            noun="rules"
            textOf={({ name, entity }) => `${name} ${entity}`}
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              ...columns(toggle, block),
              {
                key: 'last',
                header: 'last run',
                cell: (rule: Rule) => <LastRun tenant={tenant} rule={rule} runs={runs} />,
              },
            ]}
            actions={actions}
          />
        </>
      )}
      {(link.new !== '' || edited !== undefined) && entities !== undefined && (
        <RuleForm
          {...(edited === undefined ? {} : { rule: edited })}
          entities={entities}
          onSaved={refresh}
          onClose={close}
        />
      )}
      {tried !== undefined && triedEntity !== undefined && (
        <TryRule rule={tried} entity={triedEntity} onClose={close} />
      )}
      {deleted !== null && (
        <Confirm
          title={`Delete the rule ${deleted.name}?`}
          onConfirm={() => remove(deleted)}
          onClose={() => choose(null)}
        >
          It stops at once for {deleted.entity}. What it has already done stays.
        </Confirm>
      )}
    </div>
  );
}

function columns(toggle: (rule: Rule) => void, block: string | null) {
  return [
    { key: 'name', header: 'rule', cell: ({ name }: Rule) => name },
    {
      key: 'on',
      header: 'on',
      cell: (rule: Rule) => (
        <label className="checkbox">
          <input
            type="checkbox"
            aria-label={`${rule.name} is on`}
            checked={rule.isActive}
            disabled={block !== null}
            onChange={() => toggle(rule)}
          />
          <span aria-hidden="true">{rule.isActive ? 'on' : 'off'}</span>
        </label>
      ),
    },
    { key: 'entity', header: 'entity', cell: ({ entity }: Rule) => entity },
    { key: 'when', header: 'when', cell: ({ trigger }: Rule) => TRIGGERS[trigger], isMinor: true },
    {
      key: 'condition',
      header: 'condition',
      cell: ({ condition }: Rule) => <code>{condition ?? 'always'}</code>,
      isMinor: true,
    },
    { key: 'action', header: 'then', cell: ({ action }: Rule) => sayAction(action), isMinor: true },
  ];
}
