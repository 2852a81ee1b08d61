// Figures as text: as the command prints them, digit for digit, so that a figure of the page is found in its tables and documents.

/** With that many decimals; of two that are equally near the even one, as Rust has it. */
export function fixed(value: number, digits: number): string {
  const size = Math.abs(value);
  const scaled = size * 10 ** digits;
  const whole = Math.floor(scaled);
  // Only a number of few binary places is halfway: both tests are exact.
  const isHalfway = scaled - whole === 0.5 && Number.isInteger(size * 2 ** (digits + 1));
  const text = isHalfway ? ((whole + (whole % 2)) / 10 ** digits).toFixed(digits) : size.toFixed(digits);
  return value < 0 ? `-${text}` : text;
}

/** With its sign, also where it is positive. */
export function signed(value: number, digits: number): string {
  return value < 0 ? fixed(value, digits) : `+${fixed(value, digits)}`;
}

/** A count, or a mean of counts: every digit of its whole part. */
export function exact(value: number): string {
  return fixed(value, 0);
}

const UNITS: [number, string][] = [
  [1e12, " T"],
  [1e9, " G"],
  [1e6, " M"],
  [1e3, " k"],
];

/** A count to three digits, where there is no room for all: `11.8 M`. */
export function short(value: number): string {
  for (const [unit, name] of UNITS) {
    if (Math.abs(value) < unit) continue;
    const part = value / unit;
    const digits = Math.abs(part) < 9.995 ? 2 : Math.abs(part) < 99.95 ? 1 : 0;
    return fixed(part, digits) + name;
  }
  return exact(value);
}

/** The numbers at an axis, which increase: all with one unit, and as many digits as distinguish them. */
export function ticks(values: number[]): string[] {
  const most = Math.max(0, ...values.map(Math.abs));
  const [unit, name] = UNITS.find(([unit]) => most >= unit) ?? [1, ""];
  const parts = (digits: number) => values.map((value) => fixed(value / unit, digits));
  const digits = [0, 1, 2, 3, 4].find((digits) => new Set(parts(digits)).size === values.length) ?? 5;
  return parts(digits).map((part, i) => (values[i] === 0 ? "0" : part + name));
}

/** A part of a whole. */
export function percent(part: number, whole = 1): string {
  return whole > 0 ? `${fixed(100 * (part / whole), 1)} %` : "-";
}

/** What two decimals of a per cent show nothing of, as a share of one. */
export const SHOWN_SHARE = 0.005 / 100;

/** A change in per cent with its confidence interval. */
export function change(difference: number, ci95: number, of: number): string {
  if (!(of > 0)) return "-";
  if (difference === 0 && ci95 === 0) return "0 %";
  const [part, half] = [difference / of, ci95 / of];
  if (Math.abs(part) < SHOWN_SHARE && half < SHOWN_SHARE) return "< 0.01 %";
  return `${signed(100 * part, 2)} ± ${fixed(100 * half, 2)} %`;
}
