// The parameters of the page's path, decoded; '' for one that the page does not have.
import { pageAt } from './pages.ts';
import { usePathname } from './router.tsx';

interface Params {
  tenant: string;
  entity: string;
  id: string;
  role: string;
  subscription: string;
  section: string;
}

const NONE: Params = { tenant: '', entity: '', id: '', role: '', subscription: '', section: '' };

export function useParams(): Params {
  return { ...NONE, ...pageAt(usePathname())?.params };
}
