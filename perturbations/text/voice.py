"""Kernels for the voice of English verbs: active to passive, and back.

These are rules, not a model: they rewrite clear cases and leave every other caption as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from perturbations.text import tables
from perturbations.text.contractions import CLITICS, RUN_TOGETHER, Tagger, core_of, separated
from perturbations.text.fluency import known
from perturbations.text.grammar import BE, DO, HAVE, PLURAL_PRONOUNS, Inflector, verb_form
from perturbations.text.tokens import clitic, core, parts, rebuild, without_end_mark

_SUBORDINATORS = ("that", "while", "as", "if", "because")
_SOMETHING = ("someone", "somebody", "something")
_OBJECT_PRONOUNS = {"he": "him", "she": "her", "i": "me", "we": "us", "they": "them", "it": "it", "you": "you"}
_SUBJECT_PRONOUNS = {value: key for key, value in _OBJECT_PRONOUNS.items()}


def passive(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """Active to passive: "a girl does gymnastics" -> "gymnastics is done by a girl".

    It knows subject, verb and object of a simple clause, "a man playing a song" -> "a song being played by a man", and
    the instruction "add the oil to the pan" -> "the oil is added to the pan", with denials, adverbs, modals and "has":
    "a man did not win the race" -> "the race was not won by a man". Words behind the object come before a long agent:
    "a man in a hat kicks the ball into the net" -> "the ball is kicked into the net by a man in a hat". A caption that
    another verb, a relative clause or a possessive ("a girl brushes her hair") makes ambiguous stays as it is.
    """
    return _within_end_mark(text, partial(_passive, tagger=tagger, inflector=inflector))


def _within_end_mark(text: str, rewritten: Callable[[str], str]) -> str:
    """A rewritten sentence, with the mark and the white space that it ends with."""
    body = without_end_mark(text, ".!?")
    return rewritten(body) + text[len(body) :]


def _passive(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    words = text.split()
    tags = tagger(words)
    if not words or any(parts(word)[2] for word in words[:-1]) or _contracts(words, tagger):
        return text
    if tags[0] == "VB":
        return _passive_instruction(text, words, tags, inflector)
    place = _phrase(words, tags, 1) if core(words[0]) in _DESCRIBE else 0
    if place > 1 and tags[place : place + 1] in (["DT"], ["PRP"], ["CD"]):  # "in a kitchen a woman is chopping"
        main = _passive(" ".join(words[place:]), tagger=tagger, inflector=inflector)
        return rebuild(text, [*words[:place], *main.split()])
    tags = _with_verb(words, tags, inflector)
    head = _phrase(words, tags, 0)
    subject = _described(words, tags, head)
    verb, form = _active_verb(words, tags, subject)
    if not subject or not form or clitic(words[subject - 1])[1]:
        return text
    if form == "participle" and (subject > head or _of_others(words[:subject])):
        return text
    lemma = inflector.lemma(core(words[verb]), tags[verb])
    particle = words[verb + 1 : verb + 2] if " ".join([lemma, *words[verb + 1 : verb + 2]]) in _PHRASAL_VERBS else []
    start = verb + 1 + len(particle)
    end = _phrase(words, tags, start)
    given = _phrase(words, tags, end) if lemma in _GIVE else end  # "gives the man a glass"
    participle = verb_form(lemma, "VBN", inflector)
    if lemma in tables.words("no_passive") or participle is None or not _clause_ends(words, tags, given):
        return text
    if "PRP" in tags[end:] or core(words[-1]) in _INSTRUCTIONS:  # "soup with noodles in it", "a duck to roast"
        return text
    if not _patient(words, tags, start, end, inflector) or core(words[end - 1]) in _TIMES:
        return text
    patient = words[start:end]
    be = _be(patient, tags[start:end], past=form.startswith("past"))
    if lemma in _PERFORM and core(" ".join(words[end : end + 1])) == "about":  # "a song about diamonds"
        end = given = max(end, _phrase(words, tags, end + 1))
    helpers = _passive_helpers(form, be, words[subject:verb], tags[subject:verb])
    clause = [*_as_subject(words[start:end]), *helpers, participle, *particle, *words[end:given]]
    agent, rest = ["by", *_as_object(words[:subject])], words[given:]
    ordered = [*rest, *agent] if subject > head else [*agent, *rest]
    return rebuild(text, _recapitalized(words, tags, [*clause, *ordered]))


def _contracts(words: Sequence[str], tagger: Tagger) -> bool:
    """Whether a verb is written together with another word, or "its" as "it's": such captions stay as they are."""
    apart = separated(words)
    cores, tags = list(map(core_of, apart)), tagger(apart)
    return any(core in RUN_TOGETHER for core in cores) or any(
        core in CLITICS and (tag != "POS" or before == "it")
        for before, core, tag in zip(cores, cores[1:], tags[1:], strict=False)
    )


_GIVE = frozenset(("bring", "give", "hand", "offer", "send", "show", "teach", "tell"))
_PERFORM = frozenset(("give", "make", "perform", "play", "present", "read", "show", "sing", "watch", "write"))
_NAME = frozenset(("call", "dub", "entitle", "name", "title"))
_TIMES = frozenset(("time", "moment", "morning", "afternoon", "evening", "night", "day", "week", "month", "year"))
_PHRASAL_VERBS = frozenset(
    [f"{verb} up" for verb in ("beat", "chop", "clean", "cook", "cut", "fix", "hold", "lift", "mix", "pick", "set")]
    + [f"{verb} off" for verb in ("cut", "rip", "show", "take", "tear", "turn", "wash", "wipe")]
    + [f"{verb} out" for verb in ("bring", "pull", "take", "throw", "try")]
    + ["put on", "try on", "turn on", "put down", "cut down", "knock down", "take down"]
)
_DESCRIBE = frozenset(("in", "with", "on", "from", "at"))
_GROUPS = frozenset(("group", "crowd", "team", "band", "bunch", "couple", "pair", "family", "lot", "number"))


def _with_verb(words: Sequence[str], tags: list[str], inflector: Inflector) -> list[str]:
    """The tags, with the verb behind the subject that the tagger missed: "will cook rice", "chased a mouse"."""
    end = _phrase(words, tags, 0)
    tags = [*tags, ""]
    verb = next((at for at in range(end + 1, len(words)) if tags[at] != "RB"), len(words))
    opens = ("DT", "PRP", "PRP$", "CD")
    auxiliary = core(words[end]) if end < len(words) else ""
    denies = auxiliary.endswith("n't") or (auxiliary in DO and tags[end + 1] == "RB")
    if (tags[end] == "MD" or denies) and tags[verb] in ("NN", "JJ", "VBP"):
        is_listed = core(words[verb]) in {*tables.words("actions"), *tables.words("instructions")}
        if tags[verb + 1] in opens or (is_listed and tags[verb + 1].startswith(("NN", "JJ"))):
            tags[verb] = "VB"
    elif end and tags[end] == "VBN" and tags[end + 1] in opens:
        past, lemma = core(words[end]), inflector.lemma(core(words[end]), "VBN")
        if past == inflector.inflect(lemma, "VBD") and lemma not in (_GIVE - {"bring"}) | _NAME:
            tags[end] = "VBD"
    elif end > 2 and tags[end] == "DT" and tags[0] in ("DT", "CD") and tags[end - 2 : end] == ["NN", "NNS"]:
        has_verb = any(tag.startswith(("VB", "MD")) for tag in tags)
        tags[end - 1] = "NNS" if has_verb else "VBZ"  # "a mechanic repairs a car"
    return tags[:-1]


def _described(words: Sequence[str], tags: Sequence[str], end: int) -> int:
    """The end of a noun phrase with what describes it: "a man in a red shirt"."""
    while 0 < end < len(words) and core(words[end]) in _DESCRIBE:
        longer = _phrase(words, tags, end + 1)
        if longer == end + 1:
            break
        end = longer
    return end


def _of_others(subject: Sequence[str]) -> bool:
    """Whether a participle behind the subject may be another's: "footage of a man playing", not "a group of men"."""
    return "of" in subject and core(subject[subject.index("of") - 1]) not in _GROUPS


def _passive_helpers(form: str, be: str, before: Sequence[str], tags: Sequence[str]) -> list[str]:
    """The auxiliaries of a passive verb, with the denials and adverbs `before` the active one."""
    auxiliary = core(before[0]) if before and tags[0] != "RB" else ""
    adverbs = [word for word, tag in zip(before, tags, strict=True) if tag == "RB" and core(word) != auxiliary]
    denial = "n't" if auxiliary.endswith("n't") else ""
    if form == "participle":
        return [*adverbs, "being"]
    if form == "modal":
        return [auxiliary, *adverbs, "be"]
    if form == "perfect":
        have = "had" if auxiliary.startswith("had") else "have" if be in ("are", "were") else "has"
        return [f"{have}{denial}", *adverbs, "been"]
    return [f"{be}{denial}", *adverbs, *(["being"] if form.endswith("progressive") else [])]


def _recapitalized(old: Sequence[str], tags: Sequence[str], new: list[str]) -> list[str]:
    """The words of a sentence that began with a capital: the new first one gets it, names and "I" keep theirs."""
    if not old[0][:1].isupper():
        return new
    if tags[0] not in ("NNP", "NNPS", "PRP"):
        new = [word.lower() if word == old[0] else word for word in new]
    return [new[0][:1].upper() + new[0][1:], *new[1:]]


def _passive_instruction(text: str, words: list[str], tags: list[str], inflector: Inflector) -> str:
    end = _phrase(words, tags, 1)
    lemma = inflector.lemma(core(words[0]), "VB")
    participle = verb_form(lemma, "VBN", inflector)
    if lemma in tables.words("no_passive") or participle is None:
        return text
    if any(tag.startswith("VB") for tag in tags[end:]):
        return text
    instructions = tables.words("instructions")
    if any(core(word) in instructions and tag == "DT" for word, tag in zip(words[end:], tags[end + 1 :], strict=False)):
        return text  # "put it on top place some sprouts"
    if not _patient(words, tags, 1, end, inflector):
        return text
    if end < len(words) and tags[end] not in ("IN", "TO", "RP") and not _adverb(words, tags, end):
        return text
    if "CC" in tags[end:] and (_adverb(words, tags, end) or core(words[-1]) in _INSTRUCTIONS):
        return text  # "fry meat together and fish together", "add it to the pan and mix"
    helper = _be(words[1:end], tags[1:end], past=False)
    return rebuild(text, [*_as_subject(words[1:end]), helper, participle, *words[end:]])


def _patient(words: Sequence[str], tags: Sequence[str], start: int, end: int, inflector: Inflector) -> bool:
    """Whether these words are surely a whole noun phrase that can become the subject."""
    if start == end or "PRP$" in tags[start:end]:  # "her bow is shot by the girl": whose?
        return False
    cores = [core(word) for word in words[start:end]]
    if cores[-1].endswith(("self", "selves")):
        return False
    of_run = {tag for tag, bare in zip(tags[start:end], cores, strict=True) if bare != "sports"}
    last, tag = cores[-1], tags[end - 1]
    if tag == "NN" and "and" not in cores and "of" not in cores and {"NNS", "NNPS"} & of_run:
        return False  # "carrots sugar salt": a list, of which number?
    if cores[0] in _ONE and tag == "NNS" and "of" not in cores and "and" not in cores:
        return False  # "a car features"
    if tag == "NNS" and inflector.lemma(last, "VBZ") in tables.words("actions"):
        return False  # "the white top talks": a verb taken for a noun
    if last in _INSTRUCTIONS or last == "live" or not known(last):
        return False
    bare = end - start == 1 and tag == "NN" and last not in _SOMETHING
    if bare and tags[start - 1] == "VBG" and start > 1 and tags[start - 2] == "NN":
        return False  # "high school wrestling match"
    return not (last.endswith("ing") and len(cores) > 1 and last not in tables.words("ing_nouns"))


# Verbs that close a recipe's line, and are taken for nouns there: "add milk and one egg whisk".
_INSTRUCTIONS = frozenset(
    ("whisk", "stir", "mix", "blend", "fry", "cook", "boil", "toss", "heat", "chop", "simmer", "bake", "roast", "sear")
)
_ONE = frozenset(("a", "an", "one", "each", "this", "that", "every", "another"))
_PLACE_ADVERBS = frozenset(
    ("together", "outside", "inside", "over", "up", "down", "out", "off", "away", "around", "in", "on", "aside")
)


def _adverb(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    return tags[at : at + 1] == ["RB"] and (core(words[at]).endswith("ly") or core(words[at]) in _PLACE_ADVERBS)


def active(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    """Passive to active: "a song is sung by a man" -> "a man sings a song". Captions are mostly active already."""
    return _within_end_mark(text, partial(_active, tagger=tagger, inflector=inflector))


def _active(text: str, *, tagger: Tagger, inflector: Inflector) -> str:
    words = text.split()
    if _contracts(words, tagger):
        return text
    tags = tagger(words)
    # "in the kitchen the chef is interviewed by a lady": words before the subject stay before it
    start = _phrase(words, tags, 1) if tags[:1] == ["IN"] else 0
    subject = _phrase(words, tags, start)
    helper = core(" ".join(words[subject : subject + 1]))
    if subject == start or helper not in BE | {"being"}:
        return text
    past = helper in ("was", "were")
    progressive = helper != "being" and core(" ".join(words[subject + 1 : subject + 2])) == "being"
    at = subject + 1 + progressive
    # "was pushed up the hill by four farmers"
    by = next((place for place in range(at + 1, len(words)) if core(words[place]) == "by"), len(words))
    between = tags[at + 1 : by]
    if by + 1 >= len(words) or tags[at] not in ("VBN", "VBD") or (between and between[0] not in ("IN", "TO", "RP")):
        return text
    if any(tag[:2] in ("VB", "MD", "CC", "WP", "WD") for tag in between):
        return text
    end = _phrase(words, tags, by + 1)
    if end == by + 1 or (end < len(words) and tags[end] not in ("IN", "TO", "RB", "CC")):
        return text
    if core(words[end - 1]) in tables.words("places") or clitic(words[end - 1])[1]:
        return text
    agent, lemma = words[by + 1 : end], inflector.lemma(core(words[at]), "VBN")
    if not inflector.is_verb(core(words[at])):
        return text
    agent_tags = tags[by + 1 : end]
    if progressive:
        verbs = [_be(agent, agent_tags, past=past), inflector.inflect(lemma, "VBG")]
    elif helper == "being":
        verbs = [inflector.inflect(lemma, "VBG")]
    else:
        verbs = [inflector.inflect(lemma, "VBD" if past else "VBP" if _plural(agent, agent_tags) else "VBZ")]
    clause = [*words[:start], *_as_subject(agent), *verbs, *_as_object(words[start:subject]), *words[at + 1 : by]]
    return rebuild(text, _recapitalized(words, tags, [*clause, *words[end:]]))


def _as_subject(phrase: list[str]) -> list[str]:
    return [_SUBJECT_PRONOUNS.get(phrase[0], phrase[0])] if len(phrase) == 1 else phrase


def _as_object(phrase: list[str]) -> list[str]:
    return [_OBJECT_PRONOUNS.get(phrase[0].lower(), phrase[0])] if len(phrase) == 1 else phrase


def _phrase(words: Sequence[str], tags: Sequence[str], start: int) -> int:
    """The end of the noun phrases from `start` that "of" and "and" join; `start` itself when there is none."""
    end = noun_phrase(words, tags, start)
    while start < end < len(words) and core(words[end]) in ("of", "and"):
        longer = noun_phrase(words, tags, end + 1)
        if longer == end + 1:
            break
        end = longer
    return end


def noun_phrase(words: Sequence[str], tags: Sequence[str], start: int) -> int:
    """The end of the noun phrase from `start`; `start` itself when there is none."""
    at = start
    if at < len(words) and (tags[at] == "PRP" or core(words[at]) in _SOMETHING):
        return at + 1
    while at < len(words) and (tags[at] in ("DT", "PRP$", "CD", "PDT", "VBN") or tags[at].startswith("JJ")):
        if tags[at] == "VBN" and at == start:
            return start
        at += 1
    head = at
    while at < len(words) and tags[at].startswith("NN"):
        at += 1
    return at if at > head else start


def _active_verb(words: Sequence[str], tags: Sequence[str], at: int) -> tuple[int, str]:
    """The place of the main verb after a subject, and its form; "" for no verb.

    Forms are "present", "past", each also with "progressive", "participle", "modal" and "perfect".
    """
    auxiliary = core(words[at]).removesuffix("n't") if at < len(words) else ""
    helps = auxiliary in BE | DO | HAVE or tags[at : at + 1] == ["MD"]
    verb = next((place for place in range(at + helps, len(tags)) if tags[place] != "RB"), len(tags))
    tag = tags[verb] if verb < len(tags) else ""
    past = auxiliary in ("was", "were", "did")
    if auxiliary in BE:
        return verb, f"{'past' if past else 'present'} progressive" if tag == "VBG" else ""
    if helps and tag == "VB":
        return verb, ("past" if past else "present") if auxiliary in DO else "modal"
    if auxiliary in HAVE and tag in ("VBN", "VBD"):
        return verb, "perfect"
    if helps and words[at].lower().endswith("n't"):
        return verb, ""
    if helps:  # "does gymnastics"
        verb, tag = at, tags[at] if verb == at + 1 else ""
    return verb, {"VBZ": "present", "VBP": "present", "VBD": "past", "VBG": "participle"}.get(tag, "")


def _clause_ends(words: Sequence[str], tags: Sequence[str], at: int) -> bool:
    """Whether the clause ends here: no word follows that could belong to another verb or noun phrase."""
    if at == len(words):
        return True
    return (
        (tags[at] in ("IN", "TO") or _adverb(words, tags, at))
        and not (tags[at] == "TO" and tags[at + 1 : at + 2] == ["VB"])
        and core(words[at]) not in _SUBORDINATORS
        and not any(tag.startswith(("VB", "CC", "W", "MD")) for tag in tags[at:])
    )


def _plural(words: Sequence[str], tags: Sequence[str]) -> bool:
    if any(core(word) == "and" for word in words):
        return True
    # "a bowl of noodles" is a bowl
    head = next((at for at, word in enumerate(words) if core(word) == "of"), len(words)) - 1
    if core(words[head]) in _SINGULAR:
        return False
    return core(words[head]) in PLURAL_PRONOUNS | {"people"} or tags[head] in ("NNS", "NNPS")


# Written like plurals, used like singulars.
_SINGULAR = frozenset(
    ["gymnastics", "news", "mathematics", "physics", "politics", "aerobics", "athletics", "macaroni", "pepperoni"]
)


def _be(words: Sequence[str], tags: Sequence[str], *, past: bool) -> str:
    plural = _plural(words, tags)
    return ("were" if plural else "was") if past else ("are" if plural else "is")
