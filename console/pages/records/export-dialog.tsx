// "Export": this list or all of it, as CSV or NDJSON, counted while it comes. What has come by then is dropped when one
// cancels, so that a file on disk is always whole.
import { useEffect, useRef, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { isAborted } from '../../api/errors.ts';
import { useParams } from '../../app/params.ts';
import type { GridColumn } from '../../grid/columns.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Checkbox, Select } from '../../parts/field.tsx';
import { Progress } from '../../parts/states.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { counted, bytes as sizeOf } from '../../parts/value.ts';
import { canWriteFiles, chooseTarget, type Exported, exportFile } from './export-file.ts';

interface Props {
  entity: Entity;
  columns: readonly GridColumn[];
  link: { filters: string; search: string; sort: string };
  /** How many records the list has; null while that is not known. */
  total: number | null;
  onClose: () => void;
}

export default function ExportDialog({ entity, columns, link, total, onClose }: Props) {
  const { tenant } = useParams();
  const isNarrowed = link.filters !== '' || link.search !== '';
  const [format, setFormat] = useState<'csv' | 'ndjson'>('csv');
  const [isAll, setAll] = useState(!isNarrowed);
  const [isOnlyShown, setOnlyShown] = useState(false);
  const [progress, setProgress] = useState<Exported | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const start = async (): Promise<void> => {
    if (running.current !== null) return;
    const abort = new AbortController();
    running.current = abort;
    setFailure(null);
    const type = format === 'csv' ? 'text/csv' : 'application/x-ndjson';
    const target = await chooseTarget(`${entity.name}.${format}`, type);
    if (target === null || abort.signal.aborted) {
      running.current = null;
      return;
    }
    setProgress({ count: 0, bytes: 0 });
    const shown = columns.map(({ key }) => key).filter((key) => entity.fields.some((field) => field.key === key));
    const query = {
      format,
      sort: link.sort,
      fields: isOnlyShown ? shown.join(',') : '',
      filters: isAll ? '' : link.filters,
      search: isAll ? '' : link.search,
    };
    try {
      const { count, bytes } = await exportFile(tenant, entity.name, query, target, abort.signal, setProgress);
      saySuccess({ title: `${counted(count, 'record')} exported.`, description: sizeOf(bytes) });
      onClose();
    } catch (cause) {
      if (!isAborted(cause)) setFailure(cause);
      setProgress(null);
    } finally {
      running.current = null;
    }
  };
  const isRunning = progress !== null;
  const cancel = (): void => {
    if (isRunning) running.current?.abort();
    else onClose();
  };
  const expected = isAll && isNarrowed ? null : total;
  return (
    <Dialog
      title={`Export ${entity.name}`}
      onClose={() => {
        running.current?.abort();
        onClose();
      }}
      actions={
        <>
          <Button onClick={cancel}>Cancel</Button>
          <Button kind="primary" icon="download" busy={isRunning} onClick={() => void start()}>
            Export
          </Button>
        </>
      }
    >
      <div className="stack">
        {failure !== null && <ErrorPanel title="Nothing was saved." error={failure} onRetry={start} />}
        <Select
          label="Format"
          value={format}
          disabled={isRunning}
          hint={
            format === 'csv'
              ? 'For spreadsheets. A text that would run as a formula gets a leading apostrophe.'
              : 'A JSON object a line; values as stored.'
          }
          onChange={(event) => setFormat(event.target.value as 'csv' | 'ndjson')}
        >
          <option value="csv">CSV</option>
          <option value="ndjson">NDJSON</option>
        </Select>
        {isNarrowed && (
          <Select
            label="Records"
            value={isAll ? 'all' : 'list'}
            disabled={isRunning}
            onChange={(event) => setAll(event.target.value === 'all')}
          >
            <option value="list">Those of this list{total === null ? '' : ` (${total.toLocaleString('en')})`}</option>
            <option value="all">All of {entity.name}</option>
          </Select>
        )}
        <Checkbox
          label="Only the columns that are shown"
          checked={isOnlyShown}
          disabled={isRunning}
          onChange={(event) => setOnlyShown(event.target.checked)}
        />
        {progress === null && !canWriteFiles() && (
          <p className="caption">This browser keeps the file until it is whole, up to 1 GiB.</p>
        )}
        {progress !== null && expected !== null && (
          <Progress
            value={Math.min(progress.count, expected)}
            max={Math.max(1, expected)}
            label={`${progress.count.toLocaleString('en')} of ${counted(expected, 'record')}, ${sizeOf(progress.bytes)}`}
          />
        )}
        {progress !== null && expected === null && (
          <p role="status">
            {counted(progress.count, 'record')} so far, {sizeOf(progress.bytes)}
          </p>
        )}
      </div>
    </Dialog>
  );
}
