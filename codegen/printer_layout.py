"""Line layout for the printer: documents, and the rules for where they may break.

A line of Python is first a *document*: a list of texts, possible line breaks and
groups.  `render` prints a document within a width.  The algebra is Wadler's "A
prettier printer" (1998), extended the way `ruff format` extends it (Biome's, in turn
Prettier's, model), because generated code must come out of that formatter unchanged:
a group may depend on the fate of another group, brackets at the end of a line may
break without breaking what is around them, and parentheses appear only when they help.

This file knows nothing of the text of nodes; `printer.py` does.
"""

import unicodedata
from dataclasses import dataclass, field

INDENT = 4


@dataclass(frozen=True)
class Line:
    """A place for a line break; `flat` is its text when it does not break."""

    flat: str
    hard: bool = False


SOFT, SPACE, HARD = Line(""), Line(" "), Line("", hard=True)


@dataclass(eq=False, slots=True)
class Group:
    """Breaks all of its own lines, or none.

    With `when`, it is a group only if the group of that key breaks.
    """

    content: list
    key: object = None
    when: object = None
    expanded: bool = False


@dataclass(eq=False, slots=True)
class Indent:
    """Indents the lines inside; with `when`, only if that group breaks."""

    content: list
    when: object = None


@dataclass(eq=False, slots=True)
class IfBreaks:
    """One of two contents, by the fate of the group `when` (or the group around)."""

    broken: object
    flat: object = ""
    when: object = None


@dataclass(eq=False, slots=True)
class Expandable:
    """Counts as fitting if it fits with all of its lines broken.

    Holds only while the group `when` is flat: brackets may then spread over lines
    without forcing the optional parentheses around the whole expression.
    """

    content: list
    when: object


@dataclass(eq=False, slots=True)
class BestFitParens:
    """Gets parentheses and its own line if, and only if, it fits that way."""

    content: list
    key: object


@dataclass(eq=False, slots=True)
class Variants:
    """The first of `choices` whose first line fits, or else the last."""

    choices: list = field(default_factory=list)


def soft_block(content: list) -> list:
    """Returns `content` indented on lines of its own if the group around breaks."""
    return [Indent([SOFT, *content]), SOFT]


def hard_parens(content: list) -> list:
    """Returns `content` in parentheses, on lines of its own."""
    return ["(", Indent([HARD, *content]), HARD, ")"]


def parens_if_expands(content: list) -> Group:
    """Returns `content` with parentheses that appear if it does not fit on the line."""
    return Group([IfBreaks("("), *soft_block(content), IfBreaks(")")])


def optional_parens(content: list, key: object) -> Group:
    """Returns `content` in parentheses only if breaking its brackets is not enough."""
    return Group(
        [IfBreaks("("), Indent([SOFT, *content], when=key), SOFT, IfBreaks(")")], key
    )


def text_width(text: str) -> int:
    """Returns the columns `text` takes: wide characters take two, combining none."""
    if text.isascii():
        return len(text)
    return sum(
        2
        if unicodedata.east_asian_width(char) in "WF"
        else unicodedata.category(char) not in ("Mn", "Me", "Cf")
        for char in text
    )


def flat_text(document: object) -> str:
    """Returns `document` on one line."""
    match document:
        case str():
            return document
        case list():
            return "".join(
                [part if type(part) is str else flat_text(part) for part in document]
            )
        case Line():
            return document.flat
        case IfBreaks():
            return flat_text(document.flat)
        case Variants():
            return flat_text(document.choices[0])
        case Group() | Indent() | Expandable() | BestFitParens():
            return flat_text(document.content)
    raise TypeError(f"not a document: {document!r:.60}")


class Renderer:
    """Prints one document.

    A task is `(document, indent, flat, every_line)`; `every_line` says that all lines
    and not only the first have to fit, and matters only while measuring.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.out: list[str] = []
        self.column = 0
        self.pending = 0
        # Whether a group around has already proved that what follows fits.
        self.measured = False
        self.flat_groups: dict[object, bool] = {}
        self.tasks: list[tuple] = []

    def render(self, document: object, indent: int) -> str:
        """Returns the text of `document`; its first line gets no indent."""
        self.column = indent
        self.tasks = [(document, indent, False, False)]
        while self.tasks:
            task = self.tasks.pop()
            self.step(*task)
        return "".join(self.out)

    def step(self, document: object, indent: int, flat: bool, _every: bool) -> None:
        """Prints one task, or replaces it by the tasks it consists of."""
        push = self.tasks.append
        match document:
            case str():
                self.text(document)
            case list():
                self.tasks.extend(
                    (part, indent, flat, False) for part in reversed(document)
                )
            case Line():
                self.line(document, indent, flat)
            case Group():
                mode = self.group_mode(document, indent, flat)
                push((document.content, indent, mode, False))
            case Indent() | IfBreaks():
                push(self.expand(document, indent, flat, False))
            case Expandable():
                if self.is_flat(document.when, flat):
                    # It was measured with every line broken: measure its groups anew.
                    self.measured = False
                push((document.content, indent, flat, False))
            case BestFitParens():
                self.best_fit_parens(document, indent, flat)
            case Variants():
                self.variants(document, indent, flat)

    def text(self, text: str) -> None:
        """Prints `text`, after the indent if it is the first of its line."""
        if text:
            if self.pending:
                self.out.append(" " * self.pending)
                self.column, self.pending = self.pending, 0
            self.out.append(text)
            self.column += text_width(text)

    def line(self, line: Line, indent: int, flat: bool) -> None:
        """Prints a line break, or its flat text."""
        if flat and not line.hard:
            self.text(line.flat)
            return
        self.out.append("\n")
        self.column, self.pending, self.measured = 0, indent, False

    def group_mode(self, group: Group, indent: int, flat: bool) -> bool:
        """Returns whether `group` is to be printed flat."""
        if group.when is not None and self.is_flat(group.when, flat):
            return flat
        if group.expanded:
            mode = False
        elif flat and self.measured:
            mode = True
        else:
            mode = self.measure(group.content, indent, group.key)
        if group.key is not None:
            self.flat_groups[group.key] = mode
        return mode

    def is_flat(self, key: object, flat: bool) -> bool:
        """Returns whether the group `key`, or without one the group around, is flat."""
        return flat if key is None else self.flat_groups.get(key, flat)

    def measure(self, content: object, indent: int, key: object = None) -> bool:
        """Returns whether `content` and the rest of its line fit when it is flat."""
        self.measured = True
        if key is not None:
            self.flat_groups[key] = True
        return self.fits((content, indent, True, False))

    def best_fit_parens(self, node: BestFitParens, indent: int, flat: bool) -> None:
        """Prints `node` as it is if that fits, or if parentheses do not help."""
        fits = (flat and self.measured) or self.measure(node.content, indent, node.key)
        wrapped = hard_parens(node.content)
        if not fits:
            self.flat_groups[node.key] = False
            fits = not self.fits((wrapped, indent, False, True))
        self.flat_groups[node.key] = fits
        self.tasks.append((node.content if fits else wrapped, indent, fits, False))

    def variants(self, node: Variants, indent: int, flat: bool) -> None:
        """Prints the first of the choices that fits."""
        if flat and self.measured:
            self.tasks.append((node.choices[0], indent, True, False))
            return
        for choice in node.choices[:-1]:
            self.measured = True
            if self.fits((choice, indent, True, False)):
                self.tasks.append((choice, indent, True, False))
                return
        self.tasks.append((node.choices[-1], indent, False, False))

    def fits(self, task: tuple) -> bool:
        """Returns whether `task` fits on the line, with what follows it."""
        todo, rest = [task], len(self.tasks)
        column, pending = self.column, self.pending
        while True:
            if not todo:
                if rest == 0:
                    return True
                rest -= 1
                todo.append(self.tasks[rest])
            document, indent, flat, every = todo.pop()
            if isinstance(document, Line):
                if flat and not document.hard:
                    document = document.flat
                elif not every:
                    return True
                else:
                    column, pending = 0, indent
                    continue
            if isinstance(document, str):
                if document:
                    column, pending = column + pending + text_width(document), 0
                if column > self.width:
                    return False
            elif isinstance(document, list):
                todo.extend((part, indent, flat, every) for part in reversed(document))
            else:
                todo.append(self.expand(document, indent, flat, every))

    def expand(self, document: object, indent: int, flat: bool, every: bool) -> tuple:
        """Returns the task that replaces `document`, without measuring anything."""
        match document:
            case Group():
                flat = flat and not document.expanded
                if document.key is not None:
                    self.flat_groups[document.key] = flat
            case Indent():
                if document.when is None or not self.is_flat(document.when, flat):
                    indent += INDENT
            case IfBreaks():
                chosen = self.is_flat(document.when, flat)
                content = document.flat if chosen else document.broken
                return (content, indent, flat, every)
            case Expandable():
                if self.is_flat(document.when, flat):
                    flat, every = False, True
            case Variants():
                return (document.choices[0 if flat else -1], indent, flat, every)
            case BestFitParens():
                pass
            case _:
                raise TypeError(f"not a document: {document!r:.60}")
        return (document.content, indent, flat, every)
