"""Cron by brute force: look at the clock every minute and write down what Debian's rules say.

Slow, plain, and written from the rules alone: it shares no code with `ostinato.core.cron`, not even the reading of
expressions. It knows zones whose offset is in whole minutes.
"""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
LOOK_BACK = timedelta(hours=26)  # longer than any fold: what the clock has shown before
MONTHS = dict(zip("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), range(1, 13), strict=True))
WEEKDAYS = dict(zip("SUN MON TUE WED THU FRI SAT".split(), range(7), strict=True))


def due_times(expression: str, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """Every due time in `(after, until]`."""
    rule = Rule(expression)
    at = (after - LOOK_BACK).replace(second=0, microsecond=0)
    newest = clock(at, zone)
    due = []
    while at < until:
        at += MINUTE
        shown = clock(at, zone)
        if rule.stars:
            is_due = rule.matches(shown)
        else:
            is_due = any(rule.matches(wall) for wall in minutes_between(newest, shown))
        if is_due and after < at <= until:
            due.append(at)
        newest = max(newest, shown)
    return due


def clock(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None)


def minutes_between(newest: datetime, shown: datetime) -> list[datetime]:
    """The wall times that are new at this minute: usually one, none on a second pass, many after a gap."""
    return [newest + n * MINUTE for n in range(1, (shown - newest) // MINUTE + 1)]


class Rule:
    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.upper().split()
        self.stars = minute[0] == "*" or hour[0] == "*"
        self.both_days = day[0] == "*" or weekday[0] == "*"
        self.minutes = numbers(minute, 0, 59, {})
        self.hours = numbers(hour, 0, 23, {})
        self.months = numbers(month, 1, 12, MONTHS)
        self.day_terms = day.split(",")
        self.weekday_terms = weekday.split(",")
        self.days: dict[date, bool] = {}

    def matches(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.matches_date(wall.date())

    def matches_date(self, day: date) -> bool:
        if day not in self.days:
            by_day = any(self.matches_day(day, term) for term in self.day_terms)
            by_weekday = any(self.matches_weekday(day, term) for term in self.weekday_terms)
            fits = (by_day and by_weekday) if self.both_days else (by_day or by_weekday)
            self.days[day] = fits and day.month in self.months
        return self.days[day]

    def matches_day(self, day: date, term: str) -> bool:
        if term == "L":
            return day.day == last_of_month(day)
        return day.day in numbers(term, 1, 31, {})

    def matches_weekday(self, day: date, term: str) -> bool:
        if term.endswith("L"):
            return is_weekday(day, {int(term[:-1])}) and day.day > last_of_month(day) - 7
        if "#" in term:
            name, nth = term.split("#")
            return is_weekday(day, numbers(name, 0, 7, WEEKDAYS)) and (day.day - 1) // 7 + 1 == int(nth)
        return is_weekday(day, numbers(term, 0, 7, WEEKDAYS))


def numbers(field: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = (number(text, names) for text in span.split("-"))
        else:
            first = number(span, names)
            last = high if step else first
        found.update(range(first, last + 1, int(step or 1)))
    return found


def number(text: str, names: dict[str, int]) -> int:
    return names[text] if text in names else int(text)


def is_weekday(day: date, sunday_is_0_or_7: set[int]) -> bool:
    return day.isoweekday() in sunday_is_0_or_7 or day.isoweekday() % 7 in sunday_is_0_or_7


def last_of_month(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def utc(text: str) -> datetime:
    """`2026-11-16T09:00Z` as an instant."""
    return datetime.fromisoformat(text).astimezone(UTC)
