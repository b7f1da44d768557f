// "Import": a file or pasted text, which column goes into which field, then the progress and the refused lines. Steps
// back lose nothing; the import goes on while the dialog is closed.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { entitiesQuery } from '../../api/queries.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { TextAreaField } from '../../parts/field.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { refreshSchema } from '../../schema/refresh.ts';
import { ImportMapping } from './import-mapping.tsx';
import { isNew, type Mapping, makeFields, matched, Plan } from './import-plan.ts';
import { ImportProgress } from './import-progress.tsx';
import { begin, forget, ImportRun, runOf } from './import-run.ts';
import { openSource, type Source } from './import-source.ts';
import { guessReading, type Reading } from './import-values.ts';

interface Props {
  entity: Entity;
  onClose: () => void;
  onImported: () => void;
}

interface Chosen {
  source: Source;
  mapping: Mapping;
  reading: Reading;
}

export default function ImportDialog({ entity, onClose, onImported }: Props) {
  const { tenant } = useParams();
  const { me } = useRights(tenant);
  const client = useQueryClient();
  const { data: entities } = useQuery(entitiesQuery(tenant));
  const [run, setRun] = useState(() => runOf(tenant, entity.name));
  const [chosen, choose] = useState<Chosen | null>(null);
  const title = `Import into ${entity.name}`;
  if (run !== undefined) {
    const again = (): void => {
      forget(run);
      setRun(undefined);
      choose(null);
    };
    return <ImportProgress {...{ title, run, onClose, onImported }} onAgain={again} />;
  }
  if (chosen === null) {
    const take = (source: Source): void =>
      choose({
        source,
        mapping: matched(entity, source, entities ?? []),
        reading: guessReading(source.samples, source.separator),
      });
    return <ChooseFile title={title} onSource={take} onClose={onClose} />;
  }
  const start = async (): Promise<void> => {
    const { source, reading } = chosen;
    let fields = entity.fields;
    let { mapping } = chosen;
    if (Object.values(mapping).some(isNew)) {
      const keep = (made: Mapping): void => choose({ ...chosen, mapping: made });
      mapping = await makeFields(tenant, entity, mapping, keep).finally(() => refreshSchema(client, tenant));
      const all = await client.fetchQuery({ ...entitiesQuery(tenant), staleTime: 0 });
      fields = all.find(({ name }) => name === entity.name)?.fields ?? fields;
    }
    const plan = new Plan(tenant, fields, mapping, reading, entities ?? []);
    const made = new ImportRun(tenant, entity.name, source, plan, me?.id ?? null);
    begin(made);
    setRun(made);
  };
  return (
    <ImportMapping
      {...{ title, entity, onClose }}
      {...chosen}
      entities={entities ?? []}
      onChange={(patch) => choose({ ...chosen, ...patch })}
      onBack={() => choose(null)}
      onStart={start}
    />
  );
}

interface ChooseProps {
  title: string;
  onSource: (source: Source) => void;
  onClose: () => void;
}

function ChooseFile({ title, onSource, onClose }: ChooseProps) {
  const [pasted, setPasted] = useState('');
  const [isReading, setReading] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const open = async (blob: Blob, name: string): Promise<void> => {
    setProblem(null);
    setReading(true);
    try {
      onSource(await openSource(blob, name));
    } catch (cause) {
      setReading(false);
      setProblem(`${name} cannot be read. ${(cause as Error).message}.`);
    }
  };
  return (
    <Dialog
      wide
      title={title}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            busy={isReading}
            disabledReason={pasted.trim() === '' ? 'Choose a file or paste some lines first.' : null}
            onClick={() => void open(new Blob([pasted]), 'The pasted text')}
          >
            Next
          </Button>
        </>
      }
    >
      <div className="stack">
        {problem !== null && (
          <div role="alert">
            <Notice tone="bad">{problem}</Notice>
          </div>
        )}
        {isReading ? <Skeleton lines={3} /> : <FileDrop onFile={(file) => void open(file, file.name)} />}
        <TextAreaField
          label="Or paste lines"
          rows={6}
          className="input mono"
          spellCheck={false}
          placeholder={'title,stage\nAcme,open'}
          value={pasted}
          onChange={(event) => setPasted(event.target.value)}
        />
      </div>
    </Dialog>
  );
}

function FileDrop({ onFile }: { onFile: (file: File) => void }) {
  const [isOver, setOver] = useState(false);
  return (
    <label
      className={`import-drop ${isOver ? 'over' : ''}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        const [file] = event.dataTransfer.files;
        if (file !== undefined) onFile(file);
      }}
    >
      <strong>File</strong>
      <span className="caption">
        CSV with a header line (comma, semicolon or tab), or NDJSON. Of any size. Drop it here, or choose it.
      </span>
      <input
        type="file"
        aria-label="File"
        accept=".csv,.tsv,.txt,.ndjson,.jsonl,text/csv,application/x-ndjson"
        onChange={(event) => {
          const [file] = event.target.files ?? [];
          if (file !== undefined) onFile(file);
        }}
      />
    </label>
  );
}
