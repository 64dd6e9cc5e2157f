"""Memories and questions like those of users. A seed gives the same ones again.

Words are as frequent as in English: few, most of them function words, make up half of a text, and
most of the others are rare (Zipf's law). Texts are sentences of many lengths, with names, numbers
and punctuation. No text and no question comes twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

MINUTE, EPOCH = 60_000_000, 1_767_225_600_000_000  # microseconds; 2026 begins
WORDS = 50  # of a text, in the mean
TURNS = 20  # of a thread

# By frequency, the most frequent first.
_FUNCTION = str.split("""
the to and a of in i is that it for you was on with as have but be they at this we from not are by
or my he she what had all his her if so will an there when one can me would about your no which do
out up their were who been has them like just some how could than then more also other into our its
only him over because after did us any these those now here very too where while should before each
most much both may does being between own through during such must since until under again still
even around without every many another enough why
""")

# Frequent words that say something, roughly by frequency.
_CONTENT = str.split("""
time day work year people week way home meeting project said need want know think make take see come
look use find give tell ask feel try leave call plan user customer team month call order price issue
report email note answer question question morning evening night monday tuesday wednesday thursday
friday saturday sunday january february march april june july august september october november
december house family friend child mother father sister brother daughter son school office city
country street train flight hotel trip ticket car bus road airport station money budget cost payment
invoice contract account bank card number list page book paper letter message phone meeting agenda
deadline release version change update review decision problem error fix test build server database
branch feature design draft document file folder password key address name birthday wedding holiday
doctor dentist hospital medicine allergy pain sleep diet exercise running swimming bike match game
music song film show dinner lunch breakfast coffee tea bread cheese fish chicken vegetable fruit
garden kitchen room door window table chair bed light water fire wood stone paint color red green
blue white black small large long short new old early late good bad best better right wrong easy hard
happy sad tired sick busy free open closed full empty hot cold warm dry wet clean dirty cheap
expensive important urgent private public local foreign english french german spanish italian
language word sentence story idea reason result number percent half double total average minute hour
second moment today tomorrow yesterday always never often sometimes usually already soon recently
finally again maybe probably really actually exactly nearly almost together alone away back forward
left start stop begin end finish continue move turn go run walk drive ride fly travel arrive wait
stay live visit meet talk speak write read learn teach study remember forget understand explain
prefer like love hate hope worry agree refuse decide choose accept offer buy sell pay spend save
send receive bring carry hold keep lose win share help build break repair clean cook eat drink wear
play sing draw watch listen hear smell touch open close cut push pull throw catch grow plant feed
train dog cat bird horse market shop store company business client partner manager engineer lawyer
teacher student nurse neighbor tenant landlord rent lease mortgage insurance tax pension salary
interview job career boss colleague vacation weekend summer winter spring autumn weather rain snow
wind storm sun sea river lake mountain forest beach island bridge tower church museum theater
library restaurant bar cafe bakery pharmacy hospital gym pool park square corner floor roof wall
basement attic garage balcony stairs elevator machine engine battery screen keyboard camera printer
laptop tablet cable charger network router browser website link form button menu search filter
record memory agent model prompt token context policy rule limit quota backup restore upgrade
install configure deploy monitor alert log trace metric latency memory disk cache queue worker
cluster region zone cloud vendor supplier shipment delivery warehouse stock discount refund warranty
complaint feedback survey rating campaign audience brand logo slogan poster banner video podcast
article blog newsletter subscription membership event conference workshop seminar lecture course
exam grade degree certificate license permit visa passport border customs embassy
""")

_NAMES = str.split("""
Amara Bruno Chiara Dalia Emre Fiona Gustav Hana Ilse Jonas Karim Lena Mateo Nadia Oskar Priya Quinn
Rosa Samir Tara Umar Vera Wanda Xavier Yusuf Zoe Anton Bella Carlos Diana Elias Freya Goran Helga
Igor Julia Kofi Laila Milan Nora Lisbon Porto Vienna Berlin Oslo Madrid Paris Prague Dublin Zurich
""")

_TAGS = str.split("""
work travel family health money food project meeting customer home school plans style release bug
design legal music books garden sport car house birthday
""")

_QUESTIONS = """
What did {name} say about the {word} and the {word}?
When does the {word} for {name} start, and who will be there?
Do you remember which {word} we chose for the {word} in the end?
where did i put the {word} from {name}
How much did we pay for the {word} last year?
Who told me that the {word} is {word}?
What is the {word} of the {word} in {name}?
Which {word} does {name} prefer for {word}, and why?
Why was the {word} {word} so late this time?
can you find the note about {word} and {word}
What should I bring to the {word} with {name} on Friday?
Has {name} already sent the {word} to the {word}?
how do i {word} the {word} without a {word}
Tell me everything we know about the {word} of {name}.
Is there a {word} for the {word} that I should know about?
What are the open questions on {word} and {word}?
When was the last time that {name} asked for a {word}?
Did the {word} from {name} arrive before the {word}?
What does the user want to {word} when they are in {name}?
summarize what {name} decided on the {word} {word}
Which of my friends has a {word} and likes {word}?
what was the number of the {word} {word} again
Was it {name} or {name} who wanted to {word} the {word}?
Remind me why we do not {word} the {word} any more
""".strip().splitlines()

_STARTS = str.split(
    "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sc sh sl sp st str t th tr v w"
)
_MIDDLES = str.split("a e i o u a e i o ai ea ee io ou")
_ENDS = str.split("b ck d ft g l ll m n nd ng nt p r rd rk rt s ss st t x")
_SUFFIXES = ("", "", "", "s", "s", "ed", "ing", "er", "ly", "ion", "al")
_SYLLABLES = (1, 1, 2, 2, 2, 3)
_LEXICON = 30_000
# Of 100 words so many are names or numbers.
_NAMES_SHARE, _NUMBERS_SHARE = 3, 2
_SENTENCE_MAX = 18
_ATTEMPTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as a user might keep it."""

    id: str
    text: str
    tags: tuple[str, ...]
    at: int  # microseconds since the epoch


class Memories:
    """An endless supply of memories and questions."""

    def __init__(self, seed: int = 1, *, words: int = WORDS) -> None:
        self._random = Random(seed)
        self._words = words
        self._number = 0
        self._said: set[int] = set()  # hashes of texts and questions

    def memories(self, count: int) -> Iterator[Memory]:
        """Yield memories in the order of their times, with ids in no order."""
        for _ in range(count):
            draw = self._random
            id, text = f"{draw.getrandbits(64):016x}", self.text()
            tags = {draw.choice(_TAGS) for _ in range(draw.randrange(4))}
            at = EPOCH + self._number * MINUTE + draw.randrange(MINUTE)
            self._number += 1
            yield Memory(id, text, tuple(sorted(tags)), at)

    def text(self) -> str:
        """Return sentences: a fifth of the usual length, nearly twice of it, or anything between."""
        return self._new(self._text)

    def thread(self, turns: int = TURNS) -> list[str]:
        """Return the texts of a conversation of two people."""
        speakers = self._random.sample(_NAMES[:40], 2)
        return [f"{speakers[turn % 2]}: {self.text()}" for turn in range(turns)]

    def question(self) -> str:
        """Return a question as people ask it, with common words."""
        return self._new(self._question)

    def _new(self, make: Callable[[], str]) -> str:
        for _ in range(_ATTEMPTS_MAX):
            made = make()
            if hash(made) not in self._said:
                self._said.add(hash(made))
                return made
        raise RuntimeError("everything has been said")

    def _text(self) -> str:
        draw = self._random
        count = draw.randint(max(1, self._words // 5), 2 * self._words - self._words // 5)
        words = draw.choices(_LANGUAGE.words, cum_weights=_LANGUAGE.weights, k=count)
        for place in range(count):
            if (drawn := draw.randrange(100)) < _NAMES_SHARE:
                words[place] = draw.choice(_NAMES)
            elif drawn < _NAMES_SHARE + _NUMBERS_SHARE:
                words[place] = self._figure()
        return self._sentences(words)

    def _question(self) -> str:
        question, draw = self._random.choice(_QUESTIONS), self._random
        while "{word}" in question:
            (word,) = draw.choices(_LANGUAGE.content, cum_weights=_LANGUAGE.content_weights)
            question = question.replace("{word}", word, 1)
        while "{name}" in question:
            question = question.replace("{name}", draw.choice(_NAMES), 1)
        return question

    def _figure(self) -> str:
        """Return a number, an amount, a time of day or the name of a ticket."""
        draw = self._random
        number = draw.randrange(10 ** draw.randint(1, 5))
        hour, minute = draw.randrange(24), draw.randrange(60)
        return draw.choice((f"{number}", f"{number:,}", f"{hour}:{minute:02}", f"PRJ-{number}"))

    def _sentences(self, words: list[str]) -> str:
        """Return the words as sentences, with capitals, commas and full stops."""
        draw, start = self._random, 0
        while start < len(words):
            end = min(len(words), start + draw.randint(4, _SENTENCE_MAX))
            words[start] = words[start][:1].upper() + words[start][1:]
            if end - start > 8:
                words[start + draw.randint(2, 6)] += ","
            words[end - 1] += "?" if draw.randrange(12) == 0 else "."
            start = end
        return " ".join(words)


class _Language:
    """The words that every supply uses, so that the questions of one concern the texts of another."""

    def __init__(self) -> None:
        draw = Random(0)
        words = dict.fromkeys(_FUNCTION)
        frequent = len(words)
        words |= dict.fromkeys(_CONTENT)
        while len(words) < _LEXICON:
            # Some of the rare words are forms of a frequent one.
            base = _coined(draw) if draw.randrange(3) else draw.choice(_CONTENT)
            words[base + draw.choice(_SUFFIXES)] = None
        shares = [1 / (rank + 2.7) for rank in range(1, len(words) + 1)]
        self.words = list(words)
        self.weights = list(accumulate(shares))
        self.content = self.words[frequent:]
        self.content_weights = list(accumulate(shares[frequent:]))


def _coined(draw: Random) -> str:
    """Return a word that looks like English and is none."""
    count = draw.choice(_SYLLABLES)
    syllables = [draw.choice(_STARTS) + draw.choice(_MIDDLES) for _ in range(count)]
    return "".join(syllables) + draw.choice(_ENDS)


_LANGUAGE = _Language()
