"""The words that the checks know, as data: no rules stand here.

`STOP` carries no meaning of its own, `LIGHT` asks for an answer or names its form. Both are also how a language is told
from another that shares its script. Chinese, Japanese, Korean and Thai are written as pieces of text, the others as words.
"""

from collections.abc import Mapping

STOP: Mapping[str, str] = {
    "en": """a an the and or but if then than so as at by for from in into of off on onto out over to up with within
    without about i me my mine we us our you your he him his she her it its they them their this that these those
    there here who whom whose which what when where why how is am are was were be been being do does did done have
    has had having can could may might must shall should will would not no nor yes any some each every all both
    either neither few more most other such only own same too very just also again once while during before after
    above below between because until s t don doesn didn isn aren wasn won ll ve re get got make made let one ones
    thing things per via etc need needs want wants like ok""",
    "de": """der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als so wie an am auf
    aus bei beim bis durch fur gegen in im ins mit nach ohne um unter uber von vom vor zu zum zur ich mich mir mein
    meine wir uns unser du dich dir dein er ihn ihm sein seine sie ihr ihre es man dieser diese dieses dies jener
    wer was wann wo warum welche welcher welches ist sind war waren sein werden wird wurde wurden hat haben hatte
    kann kannst konnt geben konnen muss mussen soll sollen will wollen nicht kein keine auch nur noch schon sehr
    mehr dass weil ob etwas alle alles hier dort bitte nun ja nein sich""",
    "fr": """le la les l un une des du de d et ou mais si alors que qu qui quoi dont ou a au aux en dans par pour
    sur sous avec sans chez entre vers je j me m mon ma mes nous notre nos vous votre vos tu te ton ta il elle on
    ils elles se s son sa ses leur leurs ce cet cette ces ca c est sont etait etre ete ai as avons ont avoir fait
    faire peut peux pouvez doit ne n pas plus moins tres aussi comme quand comment pourquoi quel quelle quels
    quelles y tout tous toute toutes meme oui non puis""",
    "es": """el la los las un una unos unas y e o u pero si que quien cual cuales de del al a en con sin por para
    sobre entre hasta desde yo me mi mis nos nuestro tu te ti su sus se lo le les este esta estos estas ese esa eso
    esto es son era ser sido estar esta estan hay ha han haber tiene tienen puede pueden debe hace hacer no ni mas
    menos muy tambien como cuando donde porque ya todo toda todos todas otro otra cada solo""",
    "it": """il lo la i gli le un uno una e ed o ma se che chi cui di del dello della dei degli delle a al alla ai
    in nel nella da dal dalla con su sul sulla per tra fra io mi mio noi tu ti suo sua si ci questo questa quello
    quella e sono era essere ha hanno avere puo deve non piu meno molto anche come quando dove perche tutto tutti
    ogni solo""",
    "pt": """o a os as um uma uns umas e ou mas se que quem qual de do da dos das ao aos em no na nos nas com sem
    por pelo pela para sobre entre ate desde eu me meu minha nos tu voce seu sua este esta esse essa isso isto e sao
    era ser foi estar esta estao tem tem ha pode podem deve nao mais menos muito tambem como quando onde porque ja
    todo toda todos cada so""",
    "nl": """de het een en of maar als dan dat die dit deze wie wat wanneer waar waarom hoe welke van voor met
    zonder op in uit aan bij door over onder naar tot om te ik mij mijn we wij ons je jij jouw u uw hij zijn ze zij
    hun haar er is zijn was waren worden wordt heeft hebben kan kunnen moet mag zal niet geen ook nog al zo meer
    veel alle iets""",
    "pl": """i a o w we z ze na do od dla po przez przy pod nad bez za u to ten ta te tego tej tym jest sa byl byla
    bylo byc beda bedzie ja ty on ona my wy oni moj nasz twoj jego jej ich sie nie tak jak co kto gdzie kiedy
    dlaczego ktory ktora ktore czy albo lub ale juz tylko tez oraz moze""",
    "tr": """ve veya ile de da bir bu su o ben sen biz siz onlar benim senin bizim icin gibi kadar daha en cok ne
    nasil neden kim hangi mi mu var yok degil ama fakat ki olarak olan oldu""",
    "vi": """la va cua cho voi trong tren duoi den tu mot nhung cac nay do kia gi nao sao nhu the khi thi ma o co
    khong duoc bi se da dang rat toi ban chung hon theo cung""",
    "ru": """и а но или если то как что чтобы кто где когда почему зачем какой какая какие который которая которые в
    во на с со к ко у о об от до по за из под над при без для между через про я меня мне мой мы нас нам наш ты тебя
    вы вас вам ваш он его ему она ее ей оно они их им это этот эта эти тот та те такой так же ли бы не ни да нет
    есть был была было были быть будет можно нужно надо нужны нужен все всё весь вся каждый уже еще ещё только тоже
    также очень себя свой""",
    "uk": """і й та а але або якщо то як що щоб хто де коли чому який яка які в у на з із зі до від по за під над
    при без для між через про я мене мені мій ми нас ти ви він його вона її вони їх це цей ця ці той не ні так є був
    була були бути буде можна треба все вже ще тільки також дуже таке""",
    "ar": """في من على إلى الى عن مع بين بعد قبل عند حتى كيف ما ماذا متى أين لماذا هل من هو هي هم أنا نحن أنت أن إن
    لا لم لن ليس كان كانت يكون هذا هذه ذلك تلك الذي التي الذين أو و ثم قد كل بعض غير أي كما لكن إذا بها به له لها
    فيها فيه منها منه عليها عليه يجب""",
    "fa": "و در به از که این آن را با برای تا است هست بود شد می‌شود هم یا اگر چه چیست چگونه چرا یک باشد",
    "hi": """का की के को में से पर और या कि यह वह ये वे इस उस इन उन है हैं था थी थे हो होता होती होते हूँ मैं मेरा
    मेरी हम हमें हमारा तुम आप आपका वे उनका ने तो ही भी नहीं न क्या कौन कब कहाँ क्यों कैसे कितना जो जब तक लिए साथ बाद
    पहले एक कुछ सब कर करना करें करते करती किया गया जाता जाती चाहिए सकता सकते रहा ताकि अपने अपना अपनी""",
    "mr": "आणि किंवा हे ही हा ते ती तो आहे आहेत होते म्हणजे काय कसे का मध्ये साठी ला चा ची चे च्या की",
    "bn": "এবং ও বা যে এই সেই এটি কী কি কেন কিভাবে জন্য থেকে হয় হলো আছে না তা করে একটি",
    "el": """ο η το οι τα του της των τον την στο στη στην στα και ή αλλα αν που πως πώς τι ποιος ειναι ηταν με για
    απο σε να θα δεν ενα μια""",
    "he": """של את על עם אל מן או כי אם אני אתה הוא היא אנחנו הם זה זאת זו אלה מה מי איך למה מתי איפה לא כן יש אין
    גם רק כל כדי בין""",
}

LIGHT: Mapping[str, str] = {
    "en": """hi hello hey thanks thank please write explain describe give show tell list draft create compose
    produce provide generate suggest summarize summarise summary compare help find define outline plan answer
    discuss analyze analyse review prepare add use using say propose recommend evaluate estimate sum implement build
    function script code snippet program example paragraph sentence essay email letter article story text page
    version step way short brief simple good best new two three four five six seven eight nine ten twelve reply
    response request question sure certainly happy glad assist know ask asked think happen work works understand
    tell look forward appropriate regarding""",
    "de": """bitte schreibe schreib erklare erklar beschreibe gib zeige zeig nenne liste fasse zusammen
    zusammenfassung erstelle entwirf vergleiche hilf finde definiere analysiere funktion beispiel text brief kurz
    kurze einfach zwei drei vier funf mache mach""",
    "fr": """ecris redige explique decris donne donnez montre liste resume cree propose compare aide trouve definis
    fonction exemple texte lettre court courte simple deux trois quatre cinq svp fais""",
    "es": """escribe explica describe da dame muestra lista resume crea propon compara ayuda encuentra define
    funcion ejemplo texto carta cuento corto corta breve dos tres cuatro cinco favor haz""",
    "it": """scrivi spiega descrivi dammi mostra elenca riassumi crea proponi confronta aiuta trova definisci
    esempio testo breve due tre""",
    "pt": """escreva explique descreva mostre liste resuma crie proponha compare ajude encontre defina exemplo texto
    curto dois tres favor""",
    "nl": """schrijf leg uit beschrijf geef toon noem vat samen maak vergelijk help voorbeeld tekst kort twee drie
    graag""",
    "pl": """napisz wyjasnij opisz podaj pokaz wymien stresc stworz porownaj pomoz przyklad tekst krotki krotkie
    krotka dwa trzy prosze""",
    "tr": "yaz acikla anlat goster listele ozetle olustur karsilastir yardim ornek metin kisa iki uc lutfen",
    "vi": "hay viet giai thich mo ta liet ke tom tat so sanh giup vi du",
    "ru": """напиши напишите объясни объясните опиши опишите дай покажи расскажи составь список перечисли создай
    предложи сравни сравните помоги найди определи проанализируй суммируй функцию функция пример текст письмо
    короткий краткий два три четыре пять пожалуйста переведи чтонибудь""",
    "uk": """напиши поясни опиши дай покажи розкажи склади перелічи створи порівняй допоможи знайди приклад текст
    короткий два три будь ласка""",
    "ar": """اكتب اشرح صف أعط اعطني أعطني اذكر لخص لخّص قارن ساعد ساعدني أنشئ اقترح عرف حلل دالة مثال نص رسالة قصير
    اثنان ثلاثة ثلاث من فضلك رجاء تعمل يعمل وضح""",
    "fa": "بنویس توضیح بده بگو لیست خلاصه مقایسه کن لطفا مثال متن",
    "hi": """लिखो लिखिए लिखें समझाओ समझाइए समझाएं बताओ बताइए बताएं दो दीजिए सूची तुलना करो कीजिए मदद उदाहरण पत्र
    छोटा दो तीन चार पाँच कृपया काम विधि""",
    "mr": "लिहा समजावून सांगा द्या यादी तुलना करा कृपया",
    "bn": "লেখো লিখুন ব্যাখ্যা করো করুন বলো তালিকা তুলনা দাও",
    "el": "γραψε εξηγησε περιγραψε δωσε δειξε συνοψισε συγκρινε βοηθησε παραδειγμα κειμενο παρακαλω λειτουργει",
    "he": "כתוב הסבר תאר תן הצג רשום סכם השווה עזור דוגמה טקסט בבקשה עובד",
}

# Pieces that are cut out of text without spaces before its pairs of characters are looked at. Longer ones win.
CUT: Mapping[str, str] = {
    "zh": """一份 一张 一張 一段 一首 一条 一條 几个 幾個 几本 帮我 幫我 帮忙 一下 一个 一個 一封 一篇 一种 一種
    这个 這個 这次 這次 那个 那個 这些 這些 我们 我們 你们 你們 他们 他們 什么 什麼 怎么 怎麼 怎样 怎樣 如何 为什么
    為什麼 为何 哪些 哪个 哪個 多少 是否 可以 需要 应该 應該 能够 能夠 关于 關於 对于 對於 以及 并且 並且 或者 还是
    還是 因为 因為 所以 但是 如果 不过 不過 的 了 是 在 和 与 與 把 给我 給我 给 給 我 你 您 他 她 它 们 們 吗 嗎 呢
    吧 啊 就 都 也 很 要 会 會 这 這 那 有 个 個 用 写 寫 编写 編寫 解释 解釋 说明 說明 介绍 介紹 总结 總結 概括
    列出 列举 列舉 给出 給出 描述 比较 比較 分析 生成 推荐 推薦 提供 告诉 告訴 三个 三個 两个 兩個 五个 五個 一部 三
    五""",
    "ja": "教 挙 書 何 説明 要約 比較 紹介 作成 私 方 下 五つ 三つ 五 三 一 二 例",
    "ko": """알려줘 알려 설명해줘 설명 비교해줘 비교해 작성해줘 작성 써줘 요약해줘 요약 추천해줘 추천 해줘 해주세요
    주세요 무엇 어떻게 필요한""",
    "th": """อธิบาย เขียน บอก สรุป เปรียบเทียบ แนะนำ การ ความ ที่ และ ของ คือ อะไร อย่างไร ให้ ใน เป็น มี ได้ ว่า จะ
    แล้ว กับ ครับ ค่ะ""",
}

# What a request for a translation is told by: its answer need not share a word with it.
TRANSLATE = """translate translation ubersetze ubersetzung traduis traduire traduction traduce traduccion traducir
traduzca traduci traduzione traduza vertaal przetlumacz переведи перевод переклади ترجم ترجمة अनुवाद 翻译 翻譯 翻訳
訳 번역 แปล"""

REFUSALS = """i refuse|i can't help|i cannot help|i can't assist|i cannot assist|i can't do|i cannot do|i can't
comply|i cannot comply|i cannot send|i can't provide|i cannot provide|i won't|i will not|i'm unable|i am unable|i'm
not able|i am not able|i must decline|as an ai|i'm sorry, but|i am sorry, but|sorry, i can|sorry, but i|ich kann
nicht|kann ich leider nicht|kann ich nicht helfen|ich weigere|ich kann dabei nicht|es tut mir leid|je ne peux pas|je
refuse|desole, |no puedo|lo siento|me niego|nao posso|me recuso|non posso|mi rifiuto|ik kan niet|ik weiger|nie moge|
odmawiam|yapamam|reddediyorum|не могу|не буду|отказываюсь|не можу|відмовляюсь|我无法|我無法|我不能|我拒绝|我拒絕|
抱歉|お手伝いできません|お答えできません|対応できません|いたしかねます|お断り|할 수 없습니다|거부합니다|도와드릴 수
없|لا أستطيع|لا يمكنني|أرفض|عذرا|نمی‌توانم|मदद नहीं कर सकता|मैं मना करता|नहीं कर सकती|मैं असमर्थ|ทำไม่ได้|ขออภัย|δεν
μπορω|איני יכול|אני לא יכול|আমি পারব না"""

# Words by which an answer declines or is merely polite; they add nothing to what was asked.
CHATTER = """refuse cannot comply assist unable decline sorry ai language model professional contact leider helfen
leid desole aider siento ayudar извините помочь вопросом этим أستطيع المساعدة الطلب أرفض عذرا क्षमा मदद मना करता कर
抱歉 拒绝 无法 回答 问题 申 訳 手伝"""

# Phrases that say nothing. The first list is for whole words, the second for text without spaces.
FILLER = """actually|basically|really|very|quite|just|simply|literally|honestly|obviously|certainly|definitely|
essentially|perhaps|kind of|sort of|more or less|in order to|in fact|as a matter of fact|to be honest|at the end of
the day|generally speaking|needless to say|all things considered|that being said|it is important to note|it is worth
noting|it is worth mentioning|worth mentioning|worth keeping in mind|it should be noted|of course|to some extent|in
a manner of speaking|an awful lot|interestingly enough|extremely|due to the fact that|i hope this helps|feel free
to|let me know if|happy to help|i just wanted to|i would just like to|how should one put it|eigentlich|
grundsätzlich|im grunde genommen|im grunde|irgendwie|sozusagen|gewissermaßen|quasi|eben|ja eigentlich|natürlich|
selbstverständlich|letztendlich|letzten endes|an dieser stelle|ganz allgemein|zunächst einmal|einfach|wie man ja|en
fait|en réalité|en quelque sorte|pour ainsi dire|vraiment|tout simplement|il faut dire que|bien évidemment|bien sûr|
d'une certaine manière|à vrai dire|en gros|en realidad|básicamente|la verdad es que|de alguna manera|por así
decirlo|realmente|evidentemente|obviamente|por supuesto|en cierto modo|en definitiva|hay que decir que|como todo el
mundo sabe|na verdade|basicamente|de certa forma|digamos|com certeza|praticamente|in realtà|fondamentalmente|
praticamente|per così dire|diciamo|ovviamente|в общем-то|в общем и целом|в общем|как бы|на самом деле|в принципе|
собственно говоря|собственно|действительно|так сказать|вообще-то|по сути дела|практически|как говорится|как
известно|конечно же|конечно|разумеется|безусловно|короче говоря|очень|просто|как бы сказать|как-то так|في الحقيقة|في
حقيقة الأمر|في الواقع|بشكل عام|بشكل أو بآخر|يمكن القول|من الجدير بالذكر|كما هو معروف|بطبيعة الحال|في نهاية المطاف|
كما ذكرنا سابقا|بأي حال من الأحوال|لا شك فيه|على الإطلاق|جدا|असल में|वास्तव में|दरअसल|मूल रूप से|एक तरह से|आम तौर
पर|कुल मिलाकर|देखा जाए तो|सच कहूँ तो|मतलब यह कि|मतलब कि|मतलब|जैसा कि हम सब जानते|बहुत ही|बिल्कुल|देखिए|사실|
기본적으로|솔직히|어떻게 보면|일반적으로"""
FILLER_CUT = """其实呢|其实|怎么说呢|总的来说|总而言之|言而总之|一般来说|然后呢|所以说|从某种意义上来讲|
从某种意义上|换句话说|也就是说|非常非常|真的是|真的|毋庸置疑|众所周知|基本上|大家都知道|其實|總的來說|總而言之|
一般來說|換句話說|也就是說|眾所周知|ええと|なんというか|というか|まあ|基本的には|とりあえず|要するに|ある意味では|
ある意味|なんとなく|やはり|実際のところ|いわゆる|というような|というふうに|ということになる|みたいなもの|จริงๆ แล้ว|
โดยทั่วไปแล้ว|ก็คือว่า"""
