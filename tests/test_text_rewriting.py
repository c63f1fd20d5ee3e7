"""Captions whose sentences are rewritten: gender, voice, tense, style, round trips, and the tags they rest on."""

from __future__ import annotations

import pytest
from looping import each
from text_support import GIRL, PERSON, generator, kernel, outcomes, role

from perturbations.text import fluency, round_trip, tables, tokens

# --- the papers' examples ---------------------------------------------------------------------------------------------

# Schiappa et al., Tab. 5: rows without chance, and one more where the caption leaves it no choice (its only verb).
TABLE_5 = {
    "gender_female": GIRL,
    "gender_male": "a little boy does gymnastics",
    "gender_neutral": "a little child does gymnastics",
    "gender_swap": "a little boy does gymnastics",
    "only_nouns_and_only_verbs": "[UNK] [UNK] girl does gymnastics",
    "only_nouns": "[UNK] [UNK] girl [UNK] gymnastics",
    "no_nouns_and_no_verbs": "a little [UNK] [UNK] [UNK]",
    "no_verbs": "a little girl [UNK] gymnastics",
    "only_verbs": "[UNK] [UNK] [UNK] does [UNK]",
    "no_nouns": "a little [UNK] does [UNK]",
    "random_verb": "a little girl [UNK] gymnastics",
    "drop_first": "[UNK] little girl does gymnastics",
    "drop_first_and_last": "[UNK] little girl does [UNK]",
    "drop_last": "a little girl does [UNK]",
    "active_to_passive": "gymnastics is done by a little girl",
    "tense": "a little girl did gymnastics",
}


# --- bias and grammar -----------------------------------------------------------------------------------------------


# What each perturbation makes of a caption, whatever it draws.
REWRITTEN = {
    "msrvtt_p/random_noun": [("a man and a man", "a [UNK] and a [UNK]"), ("very quickly", "very quickly")],
    "msrvtt_p/random_verb": [("the red car", "[UNK] red car")],
    "msrvtt_p/gender_female": [("a male and a female", "a male and a male"), ("a boy's hat", "a girl's hat")],
    "msrvtt_p/gender_male": [("a male and a female", "a female and a female")],
    "msrvtt_p/gender_swap": [
        ("The man and his wife saw her dog and her.", "The woman and her husband saw his dog and him."),
        ("a businessman, a queen", "a businesswoman, a king"),
        ("a man's hat and the woman's dog", "a woman's hat and the man's dog"),
        ("holds it up to the girl's head and washes her hair", "holds it up to the boy's head and washes his hair"),
        ("he kisses his girlfriend and she's happy", "she kisses her boyfriend and he's happy"),
        ("THE GIRL\N{RIGHT SINGLE QUOTATION MARK}S dog", "THE BOY\N{RIGHT SINGLE QUOTATION MARK}S dog"),
        ("two men's teams, the boys' hats", "two women's teams, the girls' hats"),
        ("the gentlemen's hats and the ladies' hats", "the ladies' hats and the guys' hats"),
        ("James's dog, the dog's tail", "James's dog, the dog's tail"),
    ],
    "msrvtt_p/gender_neutral": [("the guys' car. he'll go", "the people's car. they'll go")],
    "msrvtt_p/active_to_passive": [
        ("two men discuss social issues", "social issues are discussed by two men"),
        ("a woman is stirring food", "food is being stirred by a woman"),
        ("she sings it", "it is sung by her"),
        ("add the oil to the pan", "the oil is added to the pan"),
        ("mix salt and pepper in a bowl", "salt and pepper are mixed in a bowl"),
        ("a girl singing a song on stage", "a song being sung by a girl on stage"),
        ("the young runner did not win the race", "the race was not won by the young runner"),
        ("somebody isn't wearing a helmet", "a helmet isn't being worn by somebody"),
        ("a cat constantly scratches the door", "the door is constantly scratched by a cat"),
        ("a man has eaten three apples", "three apples have been eaten by a man"),
        ("a boy can lift the box", "the box can be lifted by a boy"),
        ("A nurse gives the old man a glass of water.", "The old man is given a glass of water by a nurse."),
        ("the chef will cook rice", "rice will be cooked by the chef"),
        ("the team could not score a goal", "a goal could not be scored by the team"),
        ("the dogs didn't chase the cats", "the cats weren't chased by the dogs"),
        ("the cat chased a mouse around the kitchen", "a mouse was chased by the cat around the kitchen"),
        ("the waiter brought us the menu", "we were brought the menu by the waiter"),
        ("a mechanic repairs an old car", "an old car is repaired by a mechanic"),
        ("A man in a hat kicks the ball into the net.", "The ball is kicked into the net by a man in a hat."),
        ("two women with bags are eating it", "it is being eaten by two women with bags"),
        ("a group of people watching a screen", "a screen being watched by a group of people"),
        ("the kid picks up the toys", "the toys are picked up by the kid"),
        ("in a kitchen a woman is chopping tomatoes", "in a kitchen tomatoes are being chopped by a woman"),
        ("she sings a song about dogs", "a song about dogs is sung by her"),
        ("a guy drives a red sports car", "a red sports car is driven by a guy"),
        # not sure enough
        ("a man with a dog eating food", "a man with a dog eating food"),
        ("footage of a man playing a game", "footage of a man playing a game"),
        ("a girl brushes her hair", "a girl brushes her hair"),
        ("a woman is recording herself in a room", "a woman is recording herself in a room"),
        ("a movie called the matrix", "a movie called the matrix"),
        ("a boy given a toy", "a boy given a toy"),
        ("the men danced all night", "the men danced all night"),
        ("a girl does dance moves", "a girl does dance moves"),
        ("a man walks up the stairs", "a man walks up the stairs"),
        ("a man talks about cars", "a man talks about cars"),
        ("a man plays a song and sings", "a man plays a song and sings"),
        ("a beautiful scene", "a beautiful scene"),
        ("a man becomes a king", "a man becomes a king"),
    ],
    "mm_robustness/active": [
        ("a song is sung by a man", "a man sings a song"),
        ("the songs were sung by them", "they sang the songs"),
        ("he is being interviewed by david letterman", "david letterman is interviewing him"),
        ("in the kitchen the chef is interviewed by a lady", "in the kitchen a lady interviews the chef"),
        ("a man walks by a river", "a man walks by a river"),
        ("He is chased around the yard by two dogs.", "Two dogs chase him around the yard."),
        ("a cake being decorated by a woman", "a woman decorating a cake"),
        ("the car is parked by the road", "the car is parked by the road"),
    ],
    "msrvtt_p/reverse_neg": [
        (GIRL, "a little girl does not do gymnastics"),
        ("a dog jumps", "a dog does not jump"),
        ("dogs jump over a fence", "dogs do not jump over a fence"),
        (PERSON, "a person is not connecting something to system"),
        ("Add the oil", "Do not add the oil"),
        ("a man playing guitar", "a man not playing guitar"),
        ("a man is not here", "a man is here"),
        ("a man isn't here", "a man is here"),
        ("a man isn t here", "a man is here"),
        ("a man isnt here", "a man is here"),
        ("a man is n't here", "a man is here"),
        ("a man isn\N{RIGHT SINGLE QUOTATION MARK}t here", "a man is here"),
        ("it ain't here", "it is here"),
        ("a guy doesn t, move", "a guy does, move"),
        ("he cannot see", "he can see"),
        ("he can t see", "he can see"),
        ("they won't move", "they will move"),
        ("Never eat it", "Eat it"),
        ("there is no sound", "there is some sound"),
        ("a person no longer plays", "a person still plays"),
        ("Nobody is here.", "Somebody is here."),
        ("no one, it seems, is here", "someone, it seems, is here"),
        ("neither a dog nor a cat moves", "either a dog or a cat moves"),
        ("a man says no to him", "a man does not say no to him"),
        ("cutting without cutting", "not cutting without cutting"),
        ("long strips without cutting", "long strips without cutting"),
        ("no", "no"),
        ("a red car", "a red car"),
        ("a cat constantly scratches it", "a cat does not constantly scratch it"),
        ("What a goal!", "What a goal!"),
        ("How fast he runs!", "How fast he runs!"),
        ("they should've closed the door", "they should not have closed the door"),
        ("Is the man eating?", "Is the man not eating?"),
        ("does the man jump", "does the man not jump"),
        ("what is he doing", "what is he not doing"),
        ("Do the dishes", "Do not do the dishes"),
        ("let's look at it", "let's not look at it"),
        ("the dog wags it's tail", "the dog does not wag it's tail"),
        ("she\N{RIGHT SINGLE QUOTATION MARK}ll jump", "she\N{RIGHT SINGLE QUOTATION MARK}ll not jump"),
        ("it's a dog", "it's not a dog"),
        ("he's not here", "he's here"),
        ("I ain't here", "I am here"),
        ("they're gonna jump", "they're not gonna jump"),
    ],
    "msrvtt_p/tense": [
        (PERSON, "a person was connecting something to system"),
        ("people are dancing", "people were dancing"),
        ("a man jumped", "a man jumps"),
        ("add the oil", "added the oil"),
        ("a man singing", "a man sang"),
        ("a red car", "a red car"),
        ("to make a cake", "to make a cake"),
        ("a man tries to open a door", "a man tried to open a door"),
        ("a dog can swim", "a dog could swim"),
        ("a dog should swim", "a dog should swim"),
        ("he does not jump", "he did not jump"),
        ("a boy is seen running", "a boy was seen running"),
        ("a woman bakes and decorates a cake", "a woman baked and decorated a cake"),
        ("heat the soup and let it simmer", "heated the soup and let it simmer"),
        ("bring it to a boil and stir", "brought it to a boil and stirred"),
        ("it's a dog", "it was a dog"),
        ("IT'S A DOG", "IT WAS A DOG"),
        ("flapping it's wings", "flapping it's wings"),
        ("he\N{RIGHT SINGLE QUOTATION MARK}s playing", "he was playing"),
        ("she 's playing", "she was playing"),
        ("he's been there", "he had been there"),
        ("they've eaten", "they had eaten"),
        ("she'll jump", "she would jump"),
        ("what's in it", "what was in it"),
        ("let's look at it", "let's look at it"),
        ("Don't touch it", "Didn't touch it"),
        ("he isn\N{RIGHT SINGLE QUOTATION MARK}t here", "he wasn\N{RIGHT SINGLE QUOTATION MARK}t here"),
        ("he didn't jump", "he doesn't jump"),
        ("they should've closed it", "they should've closed it"),
        ("he ain't here", "he ain't here"),
        ("a man gotta go", "a man gotta go"),
        ("the dog's tail wags", "the dog's tail wagged"),
        ("a man's talking on the phone", "a man was talking on the phone"),
        ("a man wearing a mask, fuses", "a man wearing a mask, fuses"),
        ("karate instructors", "karate instructors"),
        ("a cat walkking", "a cat walkking"),
    ],
    "msrvtt_p/casual_to_formal": [
        ("a guy isn't on tv", "A man is not on television."),
        ("a lot of kids talking about cars", "Many children discussing cars."),
        ("add 1 tbsp of oil", "Add one tablespoon of oil."),
        # capitals and marks alone are no style
        ("Is it?", "Is it?"),
        ("a red car on a road", "a red car on a road"),
        ("add 1/2 cup of water", "add 1/2 cup of water"),
        ("she\N{RIGHT SINGLE QUOTATION MARK}s happy and they've won", "She is happy and they have won."),
        ("IT'S HERE", "IT IS HERE."),
        ("he's been there", "He has been there."),
        ("Aren't they playing?", "Are they not playing?"),
        ("the dog wags it's tail", "the dog wags it's tail"),
    ],
    "msrvtt_p/formal_to_casual": [("A man is not speaking.", "A guy isn't talking"), ("red cars", "red cars")],
}
PAIRS = [(key, before, after) for key, pairs in REWRITTEN.items() for before, after in pairs]
PAIRS += [(f"msrvtt_p/{name}", GIRL, printed) for name, printed in TABLE_5.items()]


@each(("key", "before", "after"), PAIRS)
def test_a_caption_is_rewritten(key: str, before: str, after: str) -> None:
    assert outcomes(key, before, 10) == {after}


@pytest.mark.parametrize(("name", "after"), [("female", "a female and a female"), ("male", "a male and a male")])
def test_the_paper_takes_no_female_for_a_male_word(name: str, after: str) -> None:
    assert kernel(f"msrvtt_p/gender_{name}", 1, "paper")("a male and a female", generator()) == after


@pytest.mark.parametrize(
    ("before", "released", "paper"),
    [
        ("He hits it and she catches her.", "They hits it and they catches they.", "They hit it and they catch them."),
        ("he's here, she's got it", "they's here, they's got it", "they're here, they've got it"),
        ("she has lost his red hat", "they has lost theirs red hat", "they have lost their red hat"),
    ],
)
def test_a_neutral_they_has_its_own_verb_in_the_variant_paper(before: str, released: str, paper: str) -> None:
    for variant, after in (("released", released), ("paper", paper)):
        assert kernel("msrvtt_p/gender_neutral", 1, variant)(before, generator()) == after


@pytest.mark.parametrize("name", ["swap_syn_wordnet", "swap_syn_word_embedding", "mlm_suggestion"])
def test_denials_contractions_and_auxiliaries_have_no_synonyms(name: str) -> None:
    text = "she has never been there and he isn't"
    assert outcomes(f"msrvtt_p/{name}", text, 50, 1) == {text}


@pytest.mark.parametrize(
    "text", ["a person is talking to people", "the person and a friend", "children and their doctor"]
)
def test_casual_style_gives_nobody_a_gender(text: str) -> None:
    gendered = set(tables.gender_swaps()) | set(tables.caption_genders())
    assert not gendered & set(kernel("msrvtt_p/formal_to_casual")(text, generator()).split())


@pytest.mark.parametrize(
    ("original", "translated", "taken"),
    [
        ("a girl playing her guitar", "A girl that plays his guitar", "a girl that plays her guitar"),
        ("a girl playing her guitar", "A boy is touching a guitar", "a girl playing her guitar"),
        ("a girl playing her guitar", "", "a girl playing her guitar"),
        ("she talks about movies", "It speaks on films", "she speaks on films"),
        ("cheese is sliced", "The cheese is sliced", "the cheese is sliced"),
        ("a man isn't in a huge car", "A man is not in an enormous car", "a man is not in an enormous car"),
    ],
)
def test_a_round_trip_keeps_gender_and_meaning(original: str, translated: str, taken: str) -> None:
    rules = {"tagger": role("tagger"), "inflector": role("inflector")}
    assert round_trip.post_edited(original, translated, **rules) == taken


def test_an_order_gets_a_subject_on_its_way() -> None:
    rules = {"tagger": role("tagger"), "inflector": role("inflector")}
    assert round_trip.pre_edited("heat some oil", **rules) == "you must heat some oil"


def test_fluency_falls_with_unknown_words_and_case_is_no_effective_change() -> None:
    assert fluency.fluency_change(PERSON, PERSON) == 0
    assert fluency.fluency_change("add the oil to the pan", "pan the add oil to the") < 0
    assert fluency.fluency_change("add the oil to the pan", "add the oxxl to the pan") < -0.2
    assert fluency.fluency("...") is None
    assert not tokens.differs("a man, talking", "A man talking.")
    assert tokens.differs("a man talking", "a man speaking")


# --- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caption", "tags"),
    [
        ("a man talks about cars", "DT NN VBZ IN NNS"),
        ("a woman is dancing", "DT NN VBZ VBG"),
        ("mix the flour and cook for 5 minutes", "VB DT NN CC VB IN CD NNS"),
        ("in a bowl mix two eggs", "IN DT NN VB CD NNS"),
        ("pokemon video game play", "NN NN NN NN"),
        ("broth is being added to a pot", "NN VBZ VBG VBN TO DT NN"),
        ("a girl, singing!", "DT NN VBG"),
        ("... 😀", ". ."),
    ],
)
def test_caption_tags(caption: str, tags: str) -> None:
    assert role("tagger")(caption.split()) == tags.split()
