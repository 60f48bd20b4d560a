# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Nouns, places and names of the built-in corpus.

A noun row reads `singular|plural|German singular|gender|German plural|classes`. Gender is m, f or n; `mn` is a
masculine noun of the n-declension (every form but the nominative singular equals the plural). `-` as plural marks a
mass noun. The first class decides which adjectives fit, all classes decide which verbs fit.
"""

NOUNS = """
teacher|teachers|Lehrer|m|Lehrer|person own
doctor|doctors|Arzt|m|Ärzte|person own
farmer|farmers|Bauer|mn|Bauern|person
baker|bakers|Bäcker|m|Bäcker|person
student|students|Student|mn|Studenten|person own young
boy|boys|Junge|mn|Jungen|person young
man|men|Mann|m|Männer|person
woman|women|Frau|f|Frauen|person
girl|girls|Mädchen|n|Mädchen|person young
child|children|Kind|n|Kinder|person own young
neighbour|neighbours|Nachbar|mn|Nachbarn|person own
colleague|colleagues|Kollege|mn|Kollegen|person own
tourist|tourists|Tourist|mn|Touristen|person
policeman|policemen|Polizist|mn|Polizisten|person
singer|singers|Sänger|m|Sänger|person
painter|painters|Maler|m|Maler|person
gardener|gardeners|Gärtner|m|Gärtner|person own
waiter|waiters|Kellner|m|Kellner|person
waitress|waitresses|Kellnerin|f|Kellnerinnen|person
pilot|pilots|Pilot|mn|Piloten|person
actor|actors|Schauspieler|m|Schauspieler|person
actress|actresses|Schauspielerin|f|Schauspielerinnen|person
judge|judges|Richter|m|Richter|person
mayor|mayors|Bürgermeister|m|Bürgermeister|person
guest|guests|Gast|m|Gäste|person own
butcher|butchers|Metzger|m|Metzger|person
fisherman|fishermen|Fischer|m|Fischer|person
hunter|hunters|Jäger|m|Jäger|person
engineer|engineers|Ingenieur|m|Ingenieure|person
author|authors|Autor|m|Autoren|person
lawyer|lawyers|Anwalt|m|Anwälte|person own
dentist|dentists|Zahnarzt|m|Zahnärzte|person own
craftsman|craftsmen|Handwerker|m|Handwerker|person
soldier|soldiers|Soldat|mn|Soldaten|person
musician|musicians|Musiker|m|Musiker|person
pupil|pupils|Schüler|m|Schüler|person own young
trainer|trainers|Trainer|m|Trainer|person own
tailor|tailors|Schneider|m|Schneider|person
captain|captains|Kapitän|m|Kapitäne|person
nurse|nurses|Krankenschwester|f|Krankenschwestern|person
saleswoman|saleswomen|Verkäuferin|f|Verkäuferinnen|person
lady|ladies|Dame|f|Damen|person
queen|queens|Königin|f|Königinnen|person
king|kings|König|m|Könige|person
princess|princesses|Prinzessin|f|Prinzessinnen|person young
prince|princes|Prinz|mn|Prinzen|person young
friend|friends|Freund|m|Freunde|person own
policewoman|policewomen|Polizistin|f|Polizistinnen|person
father|fathers|Vater|m|Väter|kin
mother|mothers|Mutter|f|Mütter|kin
brother|brothers|Bruder|m|Brüder|kin
sister|sisters|Schwester|f|Schwestern|kin
uncle|uncles|Onkel|m|Onkel|kin
aunt|aunts|Tante|f|Tanten|kin
grandfather|grandfathers|Großvater|m|Großväter|kin
grandmother|grandmothers|Großmutter|f|Großmütter|kin
son|sons|Sohn|m|Söhne|kin young
daughter|daughters|Tochter|f|Töchter|kin young
nephew|nephews|Neffe|mn|Neffen|kin young
niece|nieces|Nichte|f|Nichten|kin young
grandson|grandsons|Enkel|m|Enkel|kin young
granddaughter|granddaughters|Enkelin|f|Enkelinnen|kin young
dog|dogs|Hund|m|Hunde|animal pet
cat|cats|Katze|f|Katzen|animal pet
horse|horses|Pferd|n|Pferde|animal pet ride
cow|cows|Kuh|f|Kühe|animal pet
pig|pigs|Schwein|n|Schweine|animal pet
bird|birds|Vogel|m|Vögel|animal pet
mouse|mice|Maus|f|Mäuse|animal
rabbit|rabbits|Kaninchen|n|Kaninchen|animal pet
duck|ducks|Ente|f|Enten|animal pet
goose|geese|Gans|f|Gänse|animal pet
chicken|chickens|Huhn|n|Hühner|animal pet
goat|goats|Ziege|f|Ziegen|animal pet
donkey|donkeys|Esel|m|Esel|animal pet ride
fox|foxes|Fuchs|m|Füchse|animal
bear|bears|Bär|mn|Bären|animal
lion|lions|Löwe|mn|Löwen|animal
tiger|tigers|Tiger|m|Tiger|animal
elephant|elephants|Elefant|mn|Elefanten|animal ride
monkey|monkeys|Affe|mn|Affen|animal
wolf|wolves|Wolf|m|Wölfe|animal
frog|frogs|Frosch|m|Frösche|animal
snake|snakes|Schlange|f|Schlangen|animal
parrot|parrots|Papagei|m|Papageien|animal pet
hedgehog|hedgehogs|Igel|m|Igel|animal
squirrel|squirrels|Eichhörnchen|n|Eichhörnchen|animal
owl|owls|Eule|f|Eulen|animal
eagle|eagles|Adler|m|Adler|animal
camel|camels|Kamel|n|Kamele|animal ride
turtle|turtles|Schildkröte|f|Schildkröten|animal pet
pony|ponies|Pony|n|Ponys|animal pet ride
apple|apples|Apfel|m|Äpfel|food fruit
pear|pears|Birne|f|Birnen|food fruit
banana|bananas|Banane|f|Bananen|food cut
lemon|lemons|Zitrone|f|Zitronen|food cut
tomato|tomatoes|Tomate|f|Tomaten|food cut
potato|potatoes|Kartoffel|f|Kartoffeln|food cut cook
carrot|carrots|Karotte|f|Karotten|food cut cook
onion|onions|Zwiebel|f|Zwiebeln|food cut
cake|cakes|Kuchen|m|Kuchen|food bake
egg|eggs|Ei|n|Eier|food cook
sausage|sausages|Wurst|f|Würste|food cook
bread roll|bread rolls|Brötchen|n|Brötchen|food bake
cookie|cookies|Keks|m|Kekse|food bake
soup|soups|Suppe|f|Suppen|food cook
salad|salads|Salat|m|Salate|food
pizza|pizzas|Pizza|f|Pizzas|food bake
pancake|pancakes|Pfannkuchen|m|Pfannkuchen|food
pretzel|pretzels|Brezel|f|Brezeln|food bake
cherry|cherries|Kirsche|f|Kirschen|food fruit
plum|plums|Pflaume|f|Pflaumen|food fruit
strawberry|strawberries|Erdbeere|f|Erdbeeren|food fruit
peach|peaches|Pfirsich|m|Pfirsiche|food fruit
mushroom|mushrooms|Pilz|m|Pilze|food cut
cucumber|cucumbers|Gurke|f|Gurken|food cut
melon|melons|Melone|f|Melonen|food cut
nut|nuts|Nuss|f|Nüsse|food
pumpkin|pumpkins|Kürbis|m|Kürbisse|food cut cook
bread|-|Brot|n|-|food bake cut
cheese|-|Käse|m|-|food cut
butter|-|Butter|f|-|food
rice|-|Reis|m|-|food cook
meat|-|Fleisch|n|-|food cook cut
honey|-|Honig|m|-|food
jam|-|Marmelade|f|-|food
ham|-|Schinken|m|-|food cut
water|-|Wasser|n|-|drink hot
milk|-|Milch|f|-|drink hot
coffee|-|Kaffee|m|-|drink hot
tea|-|Tee|m|-|drink hot
juice|-|Saft|m|-|drink
wine|-|Wein|m|-|drink
beer|-|Bier|n|-|drink
lemonade|-|Limonade|f|-|drink
cocoa|-|Kakao|m|-|drink hot
book|books|Buch|n|Bücher|reading write lay
letter|letters|Brief|m|Briefe|reading write lay
newspaper|newspapers|Zeitung|f|Zeitungen|reading lay
novel|novels|Roman|m|Romane|reading write lay
poem|poems|Gedicht|n|Gedichte|reading write
magazine|magazines|Zeitschrift|f|Zeitschriften|reading lay
article|articles|Artikel|m|Artikel|reading write
report|reports|Bericht|m|Berichte|reading write lay
message|messages|Nachricht|f|Nachrichten|reading write
text|texts|Text|m|Texte|reading write
story|stories|Geschichte|f|Geschichten|reading write
menu|menus|Speisekarte|f|Speisekarten|reading lay
postcard|postcards|Postkarte|f|Postkarten|reading write lay
recipe|recipes|Rezept|n|Rezepte|reading write
dictionary|dictionaries|Wörterbuch|n|Wörterbücher|reading lay
contract|contracts|Vertrag|m|Verträge|reading write lay
shirt|shirts|Hemd|n|Hemden|clothing
dress|dresses|Kleid|n|Kleider|clothing
jacket|jackets|Jacke|f|Jacken|clothing
coat|coats|Mantel|m|Mäntel|clothing
hat|hats|Hut|m|Hüte|clothing
cap|caps|Mütze|f|Mützen|clothing
skirt|skirts|Rock|m|Röcke|clothing
blouse|blouses|Bluse|f|Blusen|clothing
sweater|sweaters|Pullover|m|Pullover|clothing
scarf|scarves|Schal|m|Schals|clothing
boot|boots|Stiefel|m|Stiefel|clothing
shoe|shoes|Schuh|m|Schuhe|clothing
sock|socks|Socke|f|Socken|clothing
glove|gloves|Handschuh|m|Handschuhe|clothing
tie|ties|Krawatte|f|Krawatten|clothing
suit|suits|Anzug|m|Anzüge|clothing
uniform|uniforms|Uniform|f|Uniformen|clothing
belt|belts|Gürtel|m|Gürtel|clothing
apron|aprons|Schürze|f|Schürzen|clothing
costume|costumes|Kostüm|n|Kostüme|clothing
car|cars|Auto|n|Autos|vehicle drive private
bus|buses|Bus|m|Busse|vehicle drive public
train|trains|Zug|m|Züge|vehicle public
bicycle|bicycles|Fahrrad|n|Fahrräder|vehicle private
tram|trams|Straßenbahn|f|Straßenbahnen|vehicle public
taxi|taxis|Taxi|n|Taxis|vehicle drive private
ship|ships|Schiff|n|Schiffe|vehicle public
boat|boats|Boot|n|Boote|vehicle private
truck|trucks|Lastwagen|m|Lastwagen|vehicle drive private
motorcycle|motorcycles|Motorrad|n|Motorräder|vehicle private
tractor|tractors|Traktor|m|Traktoren|vehicle drive private
ferry|ferries|Fähre|f|Fähren|vehicle public
helicopter|helicopters|Hubschrauber|m|Hubschrauber|vehicle
scooter|scooters|Roller|m|Roller|vehicle private
table|tables|Tisch|m|Tische|furniture surface
chair|chairs|Stuhl|m|Stühle|furniture surface seat
bed|beds|Bett|n|Betten|furniture surface
sofa|sofas|Sofa|n|Sofas|furniture surface seat
cupboard|cupboards|Schrank|m|Schränke|furniture beside
desk|desks|Schreibtisch|m|Schreibtische|furniture surface
bench|benches|Bank|f|Bänke|furniture surface seat
carpet|carpets|Teppich|m|Teppiche|furniture surface
mirror|mirrors|Spiegel|m|Spiegel|furniture hang beside
armchair|armchairs|Sessel|m|Sessel|furniture beside
stove|stoves|Herd|m|Herde|furniture surface
stool|stools|Hocker|m|Hocker|furniture surface seat
shelf|shelves|Regal|n|Regale|furniture surface
fridge|fridges|Kühlschrank|m|Kühlschränke|furniture beside
key|keys|Schlüssel|m|Schlüssel|thing lay
knife|knives|Messer|n|Messer|thing lay
spoon|spoons|Löffel|m|Löffel|thing lay
fork|forks|Gabel|f|Gabeln|thing lay
pen|pens|Stift|m|Stifte|thing lay
pencil|pencils|Bleistift|m|Bleistifte|thing lay
towel|towels|Handtuch|n|Handtücher|thing lay
map|maps|Landkarte|f|Landkarten|thing lay
photo|photos|Foto|n|Fotos|thing lay
ball|balls|Ball|m|Bälle|thing lay toy
umbrella|umbrellas|Regenschirm|m|Regenschirme|thing lay
comb|combs|Kamm|m|Kämme|thing lay
hammer|hammers|Hammer|m|Hämmer|thing lay
wallet|wallets|Geldbeutel|m|Geldbeutel|thing lay
notebook|notebooks|Heft|n|Hefte|thing lay
coin|coins|Münze|f|Münzen|thing lay collect
stamp|stamps|Briefmarke|f|Briefmarken|thing collect
doll|dolls|Puppe|f|Puppen|thing lay toy
camera|cameras|Kamera|f|Kameras|thing lay machine
pillow|pillows|Kissen|n|Kissen|thing lay
blanket|blankets|Decke|f|Decken|thing lay
rope|ropes|Seil|n|Seile|thing lay
ring|rings|Ring|m|Ringe|thing lay
necklace|necklaces|Halskette|f|Halsketten|thing lay
ticket|tickets|Fahrkarte|f|Fahrkarten|thing lay
bottle|bottles|Flasche|f|Flaschen|vessel stand
cup|cups|Tasse|f|Tassen|vessel stand
glass|glasses|Glas|n|Gläser|vessel stand
vase|vases|Vase|f|Vasen|vessel stand
plate|plates|Teller|m|Teller|vessel stand
bowl|bowls|Schüssel|f|Schüsseln|vessel stand
pot|pots|Topf|m|Töpfe|vessel stand
pan|pans|Pfanne|f|Pfannen|vessel stand
basket|baskets|Korb|m|Körbe|vessel stand bag
bucket|buckets|Eimer|m|Eimer|vessel stand
jug|jugs|Krug|m|Krüge|vessel stand
suitcase|suitcases|Koffer|m|Koffer|thing stand bag
backpack|backpacks|Rucksack|m|Rucksäcke|thing stand bag
bag|bags|Tasche|f|Taschen|thing stand bag
box|boxes|Kiste|f|Kisten|thing stand bag
radio|radios|Radio|n|Radios|thing stand machine
computer|computers|Computer|m|Computer|thing machine
printer|printers|Drucker|m|Drucker|thing stand machine
heater|heaters|Heizung|f|Heizungen|furniture machine
television|televisions|Fernseher|m|Fernseher|furniture machine
lamp|lamps|Lampe|f|Lampen|furniture machine stand
candle|candles|Kerze|f|Kerzen|thing stand
clock|clocks|Uhr|f|Uhren|furniture hang
guitar|guitars|Gitarre|f|Gitarren|instrument
piano|pianos|Klavier|n|Klaviere|instrument
violin|violins|Geige|f|Geigen|instrument
flute|flutes|Flöte|f|Flöten|instrument
trumpet|trumpets|Trompete|f|Trompeten|instrument
drum|drums|Trommel|f|Trommeln|instrument
harp|harps|Harfe|f|Harfen|instrument
cello|cellos|Cello|n|Cellos|instrument
saxophone|saxophones|Saxofon|n|Saxofone|instrument
accordion|accordions|Akkordeon|n|Akkordeons|instrument
flower|flowers|Blume|f|Blumen|plant pick
rose|roses|Rose|f|Rosen|plant pick
tulip|tulips|Tulpe|f|Tulpen|plant pick
sunflower|sunflowers|Sonnenblume|f|Sonnenblumen|plant pick
bush|bushes|Busch|m|Büsche|plant outside
tree|trees|Baum|m|Bäume|plant outside
question|questions|Frage|f|Fragen|idea tell
answer|answers|Antwort|f|Antworten|idea
idea|ideas|Idee|f|Ideen|idea tell
problem|problems|Problem|n|Probleme|idea tell solve
plan|plans|Plan|m|Pläne|idea tell
word|words|Wort|n|Wörter|idea tell
sentence|sentences|Satz|m|Sätze|idea tell
task|tasks|Aufgabe|f|Aufgaben|idea tell solve
exercise|exercises|Übung|f|Übungen|idea tell
mistake|mistakes|Fehler|m|Fehler|idea tell
rule|rules|Regel|f|Regeln|idea tell
riddle|riddles|Rätsel|n|Rätsel|idea solve
song|songs|Lied|n|Lieder|idea sing
film|films|Film|m|Filme|idea show
picture|pictures|Bild|n|Bilder|art hang show
painting|paintings|Gemälde|n|Gemälde|art hang show
poster|posters|Plakat|n|Plakate|art hang show
game|games|Spiel|n|Spiele|event
concert|concerts|Konzert|n|Konzerte|event
party|parties|Party|f|Partys|event
trip|trips|Reise|f|Reisen|event
meeting|meetings|Besprechung|f|Besprechungen|event
exam|exams|Prüfung|f|Prüfungen|event
wedding|weddings|Hochzeit|f|Hochzeiten|event
course|courses|Kurs|m|Kurse|event
lecture|lectures|Vortrag|m|Vorträge|event
excursion|excursions|Ausflug|m|Ausflüge|event
breakfast|-|Frühstück|n|-|meal
lunch|-|Mittagessen|n|-|meal
dinner|-|Abendessen|n|-|meal
rain|-|Regen|m|-|weather
snow|-|Schnee|m|-|weather
fog|-|Nebel|m|-|weather
storm|-|Sturm|m|-|weather
heat|-|Hitze|f|-|weather
cold|-|Kälte|f|-|weather
noise|-|Lärm|m|-|weather
house|houses|Haus|n|Häuser|building outside build clean
flat|flats|Wohnung|f|Wohnungen|building clean rent
bridge|bridges|Brücke|f|Brücken|building build
tower|towers|Turm|m|Türme|building build outside
wall|walls|Mauer|f|Mauern|building build outside
hut|huts|Hütte|f|Hütten|building build outside
door|doors|Tür|f|Türen|opening beside
window|windows|Fenster|n|Fenster|opening clean
gate|gates|Tor|n|Tore|opening outside
German|-|Deutsch|n|-|language
English|-|Englisch|n|-|language
French|-|Französisch|n|-|language
Spanish|-|Spanisch|n|-|language
Italian|-|Italienisch|n|-|language
Russian|-|Russisch|n|-|language
"""

# singular|plural|German|gender|German plural|classes|in + place (English, German)|to + place (English, German)
PLACES = """
garden|gardens|Garten|m|Gärten|outdoor|in in|into in
kitchen|kitchens|Küche|f|Küchen|room clean home|in in|into in
living room|living rooms|Wohnzimmer|n|Wohnzimmer|room clean home|in in|into in
bedroom|bedrooms|Schlafzimmer|n|Schlafzimmer|room clean home|in in|into in
bathroom|bathrooms|Badezimmer|n|Badezimmer|room clean|in in|into in
cellar|cellars|Keller|m|Keller|room clean|in in|into in
office|offices|Büro|n|Büros|room clean study job|in in|into in
classroom|classrooms|Klassenzimmer|n|Klassenzimmer|room clean study|in in|into in
garage|garages|Garage|f|Garagen|room clean job|in in|into in
workshop|workshops|Werkstatt|f|Werkstätten|room clean job|in in|into in
tent|tents|Zelt|n|Zelte|outdoor|in in|into in
forest|forests|Wald|m|Wälder|outdoor|in in|into in
park|parks|Park|m|Parks|outdoor|in in|into in
meadow|meadows|Wiese|f|Wiesen|outdoor|on auf|onto auf
field|fields|Feld|n|Felder|outdoor|on auf|onto auf
balcony|balconies|Balkon|m|Balkone|outdoor|on auf|onto auf
beach|beaches|Strand|m|Strände|outdoor|on an|to an
lake|lakes|See|m|Seen|outdoor|at an|to an
river|rivers|Fluss|m|Flüsse|outdoor|at an|to an
village|villages|Dorf|n|Dörfer|town|in in|into in
city|cities|Stadt|f|Städte|town|in in|into in
castle|castles|Schloss|n|Schlösser|town|in in|into in
hotel|hotels|Hotel|n|Hotels|town job|in in|to zu
restaurant|restaurants|Restaurant|n|Restaurants|town dine job|in in|to zu
café|cafés|Café|n|Cafés|town dine|in in|to zu
cinema|cinemas|Kino|n|Kinos|town|in in|to zu
theatre|theatres|Theater|n|Theater|town|in in|to zu
museum|museums|Museum|n|Museen|town job|in in|to zu
library|libraries|Bibliothek|f|Bibliotheken|town study job|in in|to zu
hospital|hospitals|Krankenhaus|n|Krankenhäuser|town job|in in|to zu
school|schools|Schule|f|Schulen|town job|in in|to zu
church|churches|Kirche|f|Kirchen|town|in in|to zu
shop|shops|Laden|m|Läden|shop|in in|to zu
supermarket|supermarkets|Supermarkt|m|Supermärkte|shop job|in in|to zu
bakery|bakeries|Bäckerei|f|Bäckereien|shop job|in in|to zu
pharmacy|pharmacies|Apotheke|f|Apotheken|shop|in in|to zu
market|markets|Markt|m|Märkte|shop|at auf|to zu
station|stations|Bahnhof|m|Bahnhöfe|town stop|at an|to zu
airport|airports|Flughafen|m|Flughäfen|town stop|at an|to zu
bus stop|bus stops|Haltestelle|f|Haltestellen|town stop|at an|to zu
harbour|harbours|Hafen|m|Häfen|town stop|at an|to zu
"""

FEMALE_NAMES = (
    "Anna Maria Laura Julia Lena Emma Clara Sophie Lisa Nina Eva Hannah Mia Paula Ida Greta Helena Monika Sabine "
    "Petra Karin Martha Olga Vera"
)
MALE_NAMES = (
    "Peter Paul Martin Stefan Michael Daniel David Simon Jan Tim Tom Ben Leon Anton Otto Karl Emil Oskar Walter "
    "Jakob Robert Oliver Hugo Bruno"
)
CITIES = (
    "Berlin|Berlin Vienna|Wien Munich|München Cologne|Köln Hamburg|Hamburg Zurich|Zürich Rome|Rom Paris|Paris "
    "London|London Prague|Prag Venice|Venedig Geneva|Genf Dresden|Dresden Germany|Deutschland Austria|Österreich "
    "Italy|Italien France|Frankreich Spain|Spanien Poland|Polen Greece|Griechenland Norway|Norwegen Sweden|Schweden "
    "Denmark|Dänemark England|England Japan|Japan Canada|Kanada"
)
