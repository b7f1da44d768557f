// The buttons "Import" and "Export" above the grid, and their dialogs, which are loaded when the link opens them.
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import type { Entity } from '../../api/answers.ts';
import { conditionOf, viewsQuery } from '../../api/views.ts';
import { useParams } from '../../app/params.ts';
import type { GridColumn } from '../../grid/columns.ts';
import { Button } from '../../parts/button.tsx';
import type { Link, SetLink } from './link.ts';

const ImportDialog = lazy(() => import('./import-dialog.tsx'));
const ExportDialog = lazy(() => import('./export-dialog.tsx'));

interface Props {
  /** Why nothing can be imported now; undefined when the role may not. */
  createBlock: string | null | undefined;
  canExport: boolean;
  setLink: SetLink;
}

export function Transfers({ createBlock, canExport, setLink }: Props) {
  return (
    <>
      {createBlock !== undefined && (
        <Button icon="upload" disabledReason={createBlock} onClick={() => setLink({ transfer: 'import' })}>
          Import
        </Button>
      )}
      {canExport && (
        <Button icon="download" onClick={() => setLink({ transfer: 'export' })}>
          Export
        </Button>
      )}
    </>
  );
}

interface DialogProps {
  entity: Entity;
  columns: readonly GridColumn[];
  link: Link;
  setLink: SetLink;
  total: number | null;
  canImport: boolean;
  canExport: boolean;
  onImported: () => void;
}

export function TransferDialogs({ entity, columns, link, setLink, total, ...may }: DialogProps) {
  const { tenant } = useParams();
  const { data: views } = useQuery({ ...viewsQuery(tenant), enabled: link.view !== '' });
  const view = views?.find(({ slug }) => slug === link.view);
  // Before a view is known, what it leaves out would be exported.
  const canExport = may.canExport && (link.view === '' || views !== undefined);
  const close = (): void => setLink({ transfer: null }, { replace: true });
  const filters = bothOf(view === undefined ? '' : conditionOf(view), link.filters);
  return (
    <Suspense fallback={null}>
      {link.transfer === 'import' && may.canImport && (
        <ImportDialog entity={entity} onClose={close} onImported={may.onImported} />
      )}
      {link.transfer === 'export' && canExport && (
        <ExportDialog entity={entity} columns={columns} link={{ ...link, filters }} total={total} onClose={close} />
      )}
    </Suspense>
  );
}

function bothOf(one: string, other: string): string {
  return one !== '' && other !== '' ? `(${one}) AND (${other})` : one + other;
}
