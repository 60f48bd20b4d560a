# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Adjectives, time expressions and small words of the built-in corpus.

An adjective row reads `English|German|German comparative or -|classes it fits`. Classes are first classes of nouns;
`people` stands for person and kin, `goods` for everything one can own and
`coloured` for what comes in colours. `feeling` marks a state of mind
or body that explains an action ("because she is tired") and is used as a predicate only when it stands alone.
"""

ADJECTIVES = """
old|alt|älter|people animal goods building room town outdoor shop plant opening art
young|jung|jünger|people animal
new|neu|neuer|goods building town shop room reading idea event opening
big|groß|größer|animal food goods building room town outdoor plant opening art
small|klein|kleiner|animal food goods building room town outdoor shop plant opening art
tall|groß|größer|people
beautiful|schön|schöner|people animal goods building room town outdoor plant art
ugly|hässlich|hässlicher|clothing vehicle furniture building art
long|lang|länger|reading idea event
short|kurz|kürzer|reading idea event
cheap|billig|billiger|goods food drink
expensive|teuer|teurer|goods food drink building art
good|gut|besser|people reading idea event food drink shop
bad|schlecht|schlechter|reading idea event
strong|stark|stärker|people animal
weak|schwach|schwächer|people animal
fast|schnell|schneller|animal vehicle
slow|langsam|langsamer|animal vehicle
loud|laut|lauter|animal vehicle instrument
quiet|ruhig|ruhiger|people animal room town outdoor
rich|reich|reicher|people
poor|arm|ärmer|people
clever|klug|klüger|people animal
stupid|dumm|dümmer|animal idea
friendly|freundlich|freundlicher|people animal
kind|nett|netter|people
polite|höflich|höflicher|people
funny|lustig|lustiger|people animal reading
lazy|faul|fauler|people animal
brave|mutig|mutiger|people
proud|stolz|stolzer|people
honest|ehrlich|ehrlicher|people
famous|berühmt|berühmter|people town art reading
shy|schüchtern|schüchterner|people
strict|streng|strenger|people
careful|vorsichtig|vorsichtiger|people
curious|neugierig|neugieriger|people animal
patient|geduldig|geduldiger|people
elegant|elegant|eleganter|people clothing furniture
tired|müde|müder|people animal feeling
hungry|hungrig|hungriger|people animal feeling
thirsty|durstig|durstiger|people animal feeling
sick|krank|kränker|people animal feeling
happy|glücklich|glücklicher|people feeling
sad|traurig|trauriger|people feeling
angry|wütend|wütender|people feeling
nervous|nervös|nervöser|people feeling
lonely|einsam|einsamer|people feeling
bored|gelangweilt|-|people feeling
healthy|gesund|gesünder|people animal feeling
disappointed|enttäuscht|-|people feeling
jealous|eifersüchtig|-|people feeling
wild|wild|wilder|animal
dangerous|gefährlich|gefährlicher|animal
tame|zahm|-|animal
fat|dick|dicker|animal
fresh|frisch|frischer|food drink plant
sweet|süß|süßer|fruit bake drink
sour|sauer|-|fruit drink
delicious|lecker|leckerer|food drink
cold|kalt|kälter|drink room
hot|heiß|heißer|hot
warm|warm|wärmer|clothing drink room
ripe|reif|reifer|fruit
red|rot|-|coloured fruit plant
green|grün|-|coloured fruit
blue|blau|-|coloured
yellow|gelb|-|coloured plant
black|schwarz|-|coloured animal
white|weiß|-|coloured animal plant
brown|braun|-|coloured animal
grey|grau|-|coloured animal
colourful|bunt|bunter|goods plant art
clean|sauber|sauberer|coloured room
dirty|schmutzig|schmutziger|coloured room animal
heavy|schwer|schwerer|furniture thing vessel
light|leicht|leichter|thing vessel clothing
broken|kaputt|-|vehicle furniture thing vessel instrument opening
modern|modern|moderner|vehicle furniture building room town art
comfortable|bequem|bequemer|furniture clothing vehicle
practical|praktisch|praktischer|vehicle furniture thing clothing
valuable|wertvoll|wertvoller|instrument thing vessel art
wide|breit|breiter|furniture opening
narrow|schmal|schmaler|furniture opening
round|rund|-|furniture vessel
empty|leer|-|vessel bag room town
full|voll|-|vessel bag
dark|dunkel|dunkler|room building clothing furniture
bright|hell|heller|room building
high|hoch|höher|building
interesting|interessant|interessanter|reading idea event town
boring|langweilig|langweiliger|reading idea event
important|wichtig|wichtiger|reading idea event people
difficult|schwierig|schwieriger|idea
easy|einfach|einfacher|idea
simple|schlicht|schlichter|clothing furniture
exciting|spannend|spannender|reading event
strange|seltsam|seltsamer|people animal reading idea
secret|geheim|-|reading idea
wonderful|wunderbar|-|reading idea event outdoor
popular|beliebt|beliebter|people town shop
"""

NUMBER_UNITS = "one|ein two|zwei three|drei four|vier five|fünf six|sechs seven|sieben eight|acht nine|neun"
NUMBER_TEENS = (
    "ten|zehn eleven|elf twelve|zwölf thirteen|dreizehn fourteen|vierzehn fifteen|fünfzehn sixteen|sechzehn "
    "seventeen|siebzehn eighteen|achtzehn nineteen|neunzehn"
)
NUMBER_TENS = (
    "twenty|zwanzig thirty|dreißig forty|vierzig fifty|fünfzig sixty|sechzig seventy|siebzig eighty|achtzig "
    "ninety|neunzig"
)
ORDINALS = (
    "first|ersten second|zweiten third|dritten fourth|vierten fifth|fünften sixth|sechsten seventh|siebten "
    "eighth|achten ninth|neunten tenth|zehnten eleventh|elften twelfth|zwölften thirteenth|dreizehnten "
    "fourteenth|vierzehnten fifteenth|fünfzehnten sixteenth|sechzehnten seventeenth|siebzehnten "
    "eighteenth|achtzehnten nineteenth|neunzehnten twentieth|zwanzigsten"
)
WEEKDAYS = (
    "Monday|Montag Tuesday|Dienstag Wednesday|Mittwoch Thursday|Donnerstag Friday|Freitag Saturday|Samstag "
    "Sunday|Sonntag"
)
MONTHS = (
    "January|Januar February|Februar March|März April|April May|Mai June|Juni July|Juli August|August "
    "September|September October|Oktober November|November December|Dezember"
)
SEASONS = "spring|Frühling summer|Sommer autumn|Herbst winter|Winter"

# feeling|verbs of actions it explains
MOTIVES = """
hungry|eat cook bake
thirsty|drink
tired|sleep stay go sit
sick|stay sleep cough
sad|cry call write visit
happy|sing dance smile laugh hug invite
angry|shout throw close
bored|read play travel watch visit draw paint
lonely|call visit invite write think dream
nervous|whisper stand wait
healthy|swim dance work ride travel
disappointed|cry come
jealous|follow steal hide watch
"""
# feelings that an action may cause
EFFECTS = "tired happy sad angry nervous disappointed"
# feelings that keep people from doing something
OBSTACLES = "tired hungry thirsty sick sad angry nervous lonely bored disappointed"
WEATHER = """
it is raining|es regnet
it is snowing|es schneit
it is cold|es kalt ist
it is hot|es heiß ist
it is dark|es dunkel ist
it is late|es spät ist
"""

# Fixed time expressions by the tense they go with.
PAST_TIMES = """
yesterday|gestern
yesterday evening|gestern Abend
yesterday morning|gestern Morgen
last night|letzte Nacht
last week|letzte Woche
last month|letzten Monat
last year|letztes Jahr
this morning|heute Morgen
the day before yesterday|vorgestern
"""
FUTURE_TIMES = """
today|heute
tomorrow|morgen
tomorrow morning|morgen früh
tomorrow evening|morgen Abend
tonight|heute Abend
next week|nächste Woche
next month|nächsten Monat
next year|nächstes Jahr
soon|bald
later|später
the day after tomorrow|übermorgen
"""
HABIT_TIMES = """
every day|jeden Tag
every week|jede Woche
every year|jedes Jahr
every evening|jeden Abend
every morning|jeden Morgen
in the evening|am Abend
in the morning|am Morgen
in the afternoon|am Nachmittag
at the weekend|am Wochenende
at night|nachts
"""
FREQUENCIES = """
always|immer
often|oft
sometimes|manchmal
rarely|selten
usually|meistens
"""
