# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Verbs of the built-in corpus.

A verb row reads `English|German|subject|frame|places`.

- English: `base` for a regular verb (`base+` doubles the last consonant), `base past participle` otherwise; the
  particle of a phrasal verb follows a comma: `pick,up`.
- German: `infinitive third-person participle`, then `sein` where the perfect takes it; a separable prefix is cut
  off by a hyphen in the infinitive (`ab-holen holt abgeholt`).
- subject: `person`, `animal`, `public` (vehicles on a timetable) or noun classes.
- frame: `none`; `acc CLASSES`; `dat CLASSES`; `give CLASSES` (dative person and accusative thing);
  `giveto CLASSES` (the same, English with "to"); `pp EN DE CASE CLASSES`; `dir` and `loc` (places);
  `put PREPOSITIONS`; `play`; `city EN DE`. A frame starting with `!` belongs to a stative verb, which takes no
  progressive and no "likes to".
- places: classes of places where it may happen (`-` for none).
"""

VERBS = """
eat ate eaten|essen isst gegessen|person|acc food|dine kitchen outdoor
cook|kochen kocht gekocht|person|acc cook|kitchen
bake|backen backt gebacken|person|acc bake|-
drink drank drunk|trinken trinkt getrunken|person|acc drink|dine home outdoor
taste|probieren probiert probiert|person|acc food drink|dine
order|bestellen bestellt bestellt|person|acc food drink|dine
cut cut cut +|schneiden schneidet geschnitten|person|acc cut|-
peel|schälen schält geschält|person|acc fruit|kitchen
pick|pflücken pflückt gepflückt|person|acc pick fruit|outdoor
read read read|lesen liest gelesen|person|acc reading|outdoor home study
write wrote written|schreiben schreibt geschrieben|person|acc write|study home dine
translate|übersetzen übersetzt übersetzt|person|acc reading|study
sign|unterschreiben unterschreibt unterschrieben|person|acc contract letter report|office
wear wore worn|tragen trägt getragen|person|!acc clothing|-
wash|waschen wäscht gewaschen|person|acc clothing vehicle vessel|outdoor
sew sewed sewn|nähen näht genäht|person|acc dress shirt skirt blouse coat jacket apron costume|-
buy bought bought|kaufen kauft gekauft|person|acc food clothing thing vessel plant reading|shop
sell sold sold|verkaufen verkauft verkauft|person|acc private instrument animal furniture building thing|-
have had had|haben hat gehabt|person|!acc pet private instrument idea thing|-
need|brauchen braucht gebraucht|person|!acc thing vessel furniture clothing private|-
look,for|suchen sucht gesucht|person|acc thing pet clothing vessel shop|-
find found found|finden findet gefunden|person|acc thing pet reading clothing|home outdoor
lose lost lost|verlieren verliert verloren|person|acc thing clothing|outdoor town
see saw seen|sehen sieht gesehen|person|!acc animal person building vehicle town|outdoor town
forget forgot forgotten +|vergessen vergisst vergessen|person|!acc thing clothing idea|-
repair|reparieren repariert repariert|person|acc vehicle machine furniture instrument|garage workshop
drive drove driven|fahren fährt gefahren|person|acc drive|-
park|parken parkt geparkt|person|acc drive|-
paint|malen malt gemalt|person|acc art|home outdoor
visit|besuchen besucht besucht|person|acc kin person town|-
meet met met|treffen trifft getroffen|person|acc person kin|town outdoor dine
love|lieben liebt geliebt|person|!acc kin animal instrument|-
know knew known|kennen kennt gekannt|person|!acc person song film rule story town shop|-
greet|begrüßen begrüßt begrüßt|person|acc person kin|town
hug+|umarmen umarmt umarmt|person|acc kin person|-
ask|fragen fragt gefragt|person|acc person kin|-
photograph|fotografieren fotografiert fotografiert|person|acc animal building town outdoor|-
draw drew drawn|zeichnen zeichnet gezeichnet|person|acc animal plant building|outdoor
feed fed fed|füttern füttert gefüttert|person|acc pet|outdoor
stroke|streicheln streichelt gestreichelt|person|acc pet|outdoor
ride rode ridden|reiten reitet geritten|person|acc ride|-
catch caught caught|fangen fängt gefangen|person|acc animal|outdoor
watch|beobachten beobachtet beobachtet|person|acc animal person|outdoor
hear heard heard|hören hört gehört|person|!acc pet song vehicle|-
open|öffnen öffnet geöffnet|person|acc opening letter bag bottle|-
close|zu-machen macht zugemacht|person|acc opening bag|-
switch,on|ein-schalten schaltet eingeschaltet|person|acc machine|-
switch,off|aus-schalten schaltet ausgeschaltet|person|acc machine|-
tidy,up|auf-räumen räumt aufgeräumt|person|acc room|-
put put put +,on|an-ziehen zieht angezogen|person|acc clothing|-
take took taken,off|aus-ziehen zieht ausgezogen|person|acc clothing|-
try,on|an-probieren probiert anprobiert|person|acc clothing|shop
throw threw thrown,away|weg-werfen wirft weggeworfen|person|acc thing clothing food|-
give gave given,back|zurück-geben gibt zurückgegeben|person|acc thing reading vessel|-
bring brought brought,along|mit-bringen bringt mitgebracht|person|acc food drink reading instrument|-
take took taken,along|mit-nehmen nimmt mitgenommen|person|acc thing clothing pet|-
call|an-rufen ruft angerufen|person|acc person kin|-
invite|ein-laden lädt eingeladen|person|acc person kin|-
pick,up|ab-holen holt abgeholt|person|acc person kin|stop
read read read,out|vor-lesen liest vorgelesen|person|acc reading|home study
look,at|an-sehen sieht angesehen|person|acc art building animal|town
prepare|vor-bereiten bereitet vorbereitet|person|acc event meal|-
call,off|ab-sagen sagt abgesagt|person|acc event|-
write wrote written,down|auf-schreiben schreibt aufgeschrieben|person|acc tell recipe|study
borrow|aus-leihen leiht ausgeliehen|person|acc reading private|-
unpack|aus-packen packt ausgepackt|person|acc bag|bedroom hotel
pack|ein-packen packt eingepackt|person|acc clothing thing reading|bedroom
build built built|bauen baut gebaut|person|acc build boat table bench shelf cupboard|-
clean|putzen putzt geputzt|person|acc clean window|-
break broke broken|zerbrechen zerbricht zerbrochen|person|acc vessel mirror|-
carry|tragen trägt getragen|person|acc bag surface|-
push|schieben schiebt geschoben|person|acc private surface|-
steal stole stolen|stehlen stiehlt gestohlen|person|acc thing private art food|-
hide hid hidden|verstecken versteckt versteckt|person|acc thing reading food|home cellar garden forest
rent|mieten mietet gemietet|person|acc private rent|-
understand understood understood|verstehen versteht verstanden|person|!acc tell reading language|-
learn|lernen lernt gelernt|person|acc language song rule poem|study
speak spoke spoken|sprechen spricht gesprochen|person|acc language|-
solve|lösen löst gelöst|person|acc solve|-
describe|beschreiben beschreibt beschrieben|person|acc person animal art building town|-
sing sang sung|singen singt gesungen|person|acc sing|outdoor town
play|spielen spielt gespielt|person|play|home outdoor
plan+|planen plant geplant|person|acc event|office
miss|verpassen verpasst verpasst|person|acc public event|-
use|benutzen benutzt benutzt|person|acc machine thing vessel|-
collect|sammeln sammelt gesammelt|person|acc collect|-
count|zählen zählt gezählt|person|acc collect pet|-
correct|korrigieren korrigiert korrigiert|person|acc text mistake sentence report|study
check|prüfen prüft geprüft|person|acc contract ticket answer report|office
water|gießen gießt gegossen|person|acc plant|outdoor
plant|pflanzen pflanzt gepflanzt|person|acc plant|outdoor
pay paid paid,for|bezahlen bezahlt bezahlt|person|acc food drink clothing ticket|dine shop
help|helfen hilft geholfen|person|dat person kin|kitchen garden
thank|danken dankt gedankt|person|dat person kin|-
follow|folgen folgt gefolgt sein|person|dat person kin animal|outdoor
trust|vertrauen vertraut vertraut|person|!dat person kin|-
answer|antworten antwortet geantwortet|person|dat person kin|-
congratulate|gratulieren gratuliert gratuliert|person|dat person kin|-
listen,to|zu-hören hört zugehört|person|dat person kin|-
belong,to|gehören gehört gehört|private instrument pet thing|!dat person kin|-
give gave given|geben gibt gegeben|person|give thing food reading clothing vessel|-
show showed shown|zeigen zeigt gezeigt|person|give show reading building thing|-
send sent sent|schicken schickt geschickt|person|give reading thing clothing|-
bring brought brought|bringen bringt gebracht|person|give food drink thing vessel|-
lend lent lent|leihen leiht geliehen|person|give private instrument reading thing|-
offer|an-bieten bietet angeboten|person|give food drink|-
tell told told|erzählen erzählt erzählt|person|give story|-
explain|erklären erklärt erklärt|person|giveto tell|-
recommend|empfehlen empfiehlt empfohlen|person|giveto book novel magazine poem story film food|-
introduce|vor-stellen stellt vorgestellt|person|giveto kin own|-
wait,for|warten wartet gewartet|person|pp - auf acc public person kin|stop town
think thought thought,of|denken denkt gedacht|person|pp - an acc event kin person|-
talk,about|reden redet geredet|person|pp - über acc event reading idea film|-
laugh,about|lachen lacht gelacht|person|pp - über acc film story mistake|-
dream,of|träumen träumt geträumt|person|pp - von dat animal event private building|-
work|arbeiten arbeitet gearbeitet|person|none|job
sleep slept slept|schlafen schläft geschlafen|person animal|none|bedroom tent hotel
dance|tanzen tanzt getanzt|person|none|outdoor garden
laugh|lachen lacht gelacht|person|none|-
cry|weinen weint geweint|person|none|bedroom
smile|lächeln lächelt gelächelt|person|none|-
swim swam swum +|schwimmen schwimmt geschwommen sein|person|none|-
cough|husten hustet gehustet|person|none|-
wait|warten wartet gewartet|person|none|town stop
whisper|flüstern flüstert geflüstert|person|none|-
shout|schreien schreit geschrien|person|none|outdoor
get got got +,up|auf-stehen steht aufgestanden sein|person|none|-
wake woke woken,up|auf-wachen wacht aufgewacht sein|person animal|none|-
fall fell fallen,asleep|ein-schlafen schläft eingeschlafen sein|person animal|none|-
arrive|an-kommen kommt angekommen sein|public|none|stop
depart|ab-fahren fährt abgefahren sein|public|none|-
stop+|halten hält gehalten|public|none|stop town
come came come,back|zurück-kommen kommt zurückgekommen sein|person|none|-
go went gone|gehen geht gegangen sein|person|dir|-
walk|laufen läuft gelaufen sein|person dog|dir|-
travel+|reisen reist gereist sein|person|city to nach|-
fly flew flown|fliegen fliegt geflogen sein|person|city to nach|-
live|wohnen wohnt gewohnt|person|!city in in|-
move|ziehen zieht gezogen sein|person|city to nach|-
sit sat sat +|sitzen sitzt gesessen|person cat dog|loc on auf seat|-
stand stood stood|stehen steht gestanden|person|loc next_to,behind,in_front_of neben,hinter,vor outside beside|-
stay|bleiben bleibt geblieben sein|person|loc - - place|-
jump|springen springt gesprungen sein|cat dog monkey squirrel frog boy|onto onto auf seat bed table|-
lie lay lain|liegen liegt gelegen|lay pet|!loc on,under,next_to auf,unter,neben surface|-
lay laid laid|legen legt gelegt|person|put lay|-
place|stellen stellt gestellt|person|put stand|-
hang hung hung|hängen hängt gehängt|person|put hang|-
"""
