// A record beside the grid, with all its values.
import { useQuery } from '@tanstack/react-query';
import type { Entity, Row } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import { statusOf } from '../../api/errors.ts';
import { keyOf } from '../../api/queries.ts';
import { useParams } from '../../app/params.ts';
import { Link } from '../../app/router.tsx';
import { columnsOf } from '../../grid/columns.ts';
import { cellText } from '../../grid/values.ts';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Peek } from '../../parts/peek.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { counted, titleOf } from '../../parts/value.ts';

/** A longer text is on the record's own page. */
const MOST_CHARACTERS = 5_000;

function beginning(text: string): string {
  if (text.length <= MOST_CHARACTERS) return text;
  return `${text.slice(0, MOST_CHARACTERS)}… (${counted(text.length, 'character')}: open the record)`;
}

interface Props {
  entity: Entity;
  /** Of the records: the entity's, or those of a view. */
  path: string;
  id: string;
  /** The record's own page; null when the role may not open it. */
  href: string | null;
  onClose: () => void;
}

export function RecordPeek({ entity, path, id, href, onClose }: Props) {
  const { tenant } = useParams();
  const { data, error, refetch } = useQuery({
    queryKey: keyOf(tenant, 'record', path, id),
    queryFn: ({ signal }) => get<Row>(`${path}/${id}`, { tenant, signal }),
    staleTime: 0,
  });
  return (
    <Peek
      title={data === undefined ? id.slice(0, 8) : titleOf(data, entity.fields)}
      onClose={onClose}
      actions={
        href !== null && (
          <Link className="button plain" href={href}>
            Open
          </Link>
        )
      }
    >
      {data === undefined && error === null && <Skeleton />}
      {statusOf(error) === 404 && <Empty>There is no record with this id, or your role may not see it.</Empty>}
      {error !== null && statusOf(error) !== 404 && (
        <ErrorPanel title="Could not load the record." error={error} onRetry={refetch} />
      )}
      {data !== undefined && (
        <dl className="peek-values">
          {columnsOf(entity).map(({ key, label, field }) => (
            <div key={key}>
              <dt>{label}</dt>
              <dd>{field.key === 'id' ? <code>{data.id}</code> : beginning(cellText(field, data[key]))}</dd>
            </div>
          ))}
        </dl>
      )}
    </Peek>
  );
}
