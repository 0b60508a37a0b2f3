"""Pans and zooms the map of the cluster in the page, frame by frame, and measures what a frame costs."""

from __future__ import annotations

from typing import NamedTuple

from tests.integration.browser.driver import Browser

MOVE = """
const [how, seconds, done] = arguments;
const map = document.querySelector('.map');
const box = map.getBoundingClientRect();
const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
const send = (type, dx, dy) => map.dispatchEvent(new PointerEvent(type,
  { clientX: x + dx, clientY: y + dy, pointerId: 1, isPrimary: true, bubbles: true }));
map.setPointerCapture = () => {};
const before = { frames: Number(map.dataset.frames), spent: Number(map.dataset.spent) };
const times = [];
let start = 0;
if (how === 'pan') send('pointerdown', 0, 0);
const step = (now) => {
  start ||= now;
  times.push(now);
  const at = (now - start) / 1000;
  if (how === 'pan') send('pointermove', 150 * Math.sin(3 * at), 60 * Math.sin(5 * at));
  else map.dispatchEvent(new WheelEvent('wheel',
    { deltaY: at % 2 < 1 ? -25 : 25, clientX: x, clientY: y, cancelable: true }));
  if (at < seconds) requestAnimationFrame(step);
  else {
    if (how === 'pan') send('pointerup', 0, 0);
    requestAnimationFrame(() => done({ times, drawn: Number(map.dataset.frames) - before.frames,
      spent: Number(map.dataset.spent) - before.spent, shown: Number(map.dataset.shown) }));
  }
};
requestAnimationFrame(step);
"""


class Motion(NamedTuple):
    """`times`: of frames of the page, ms. `drawn`: frames of the map, in which its own script spent `spent` ms.
    `shown`: tiles on the screen in the last frame."""

    times: list[float]
    drawn: int
    spent: float
    shown: int


def move(browser: Browser, how: str, seconds: float) -> Motion:
    """`how`: pan or zoom."""
    return Motion(**browser.run_async(MOVE, how, seconds))
