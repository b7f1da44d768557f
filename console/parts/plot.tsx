// Numbers by day as bars. What it draws is for the eye alone: the page shows the same numbers as a table. Drawn again
// when its width or the theme changes.
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';

const HEIGHT = 160;
const DARK = '(prefers-color-scheme: dark)';

interface Props {
  /** UTC days as `YYYY-MM-DD`. */
  days: readonly string[];
  values: readonly number[];
  shown?: (value: number) => string;
}

export function Plot({ days, values, shown = (value) => value.toLocaleString('en') }: Props) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current as HTMLDivElement;
    const data: uPlot.AlignedData = [days.map((day) => Date.parse(day) / 1_000), [...values]];
    let plot: uPlot | undefined;
    const draw = (): void => {
      plot?.destroy();
      plot = new uPlot(optionsOf(element, shown), data, element);
    };
    const sizes = new ResizeObserver(() => plot?.setSize({ width: element.clientWidth, height: HEIGHT }));
    const themes = new MutationObserver(draw);
    draw();
    sizes.observe(element);
    themes.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    const dark = matchMedia(DARK);
    dark.addEventListener('change', draw);
    return () => {
      sizes.disconnect();
      themes.disconnect();
      dark.removeEventListener('change', draw);
      plot?.destroy();
    };
  }, [days, values, shown]);
  return <div className="plot" aria-hidden="true" ref={place} />;
}

function optionsOf(element: HTMLElement, shown: (value: number) => string): uPlot.Options {
  const style = getComputedStyle(element);
  // As used: the property itself has a colour for each theme.
  const colour = (name: string): string => {
    element.style.color = `var(${name})`;
    const { color } = style;
    element.style.color = '';
    return color;
  };
  const axis = { stroke: colour('--dim'), font: `12px ${style.fontFamily}`, ticks: { show: false } };
  const grid = { stroke: colour('--line'), width: 1 };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'UTC'),
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 28, values: (_, at) => at.map(dayOf), space: 64 },
      { ...axis, grid, size: 64, values: (_, at) => at.map((value) => (Number.isInteger(value) ? shown(value) : '')) },
    ],
    series: [
      {},
      {
        stroke: colour('--accent'),
        width: 0,
        fill: colour('--accent'),
        points: { show: false },
        ...(uPlot.paths.bars === undefined ? {} : { paths: uPlot.paths.bars({ size: [0.7, 24] }) }),
      },
    ],
  };
}

const DAY = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', timeZone: 'UTC' });

const dayOf = (seconds: number): string => DAY.format(new Date(seconds * 1_000));
