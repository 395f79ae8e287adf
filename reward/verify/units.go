package verify

import (
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// measured parses the unit after a value, and words that scale the value, such as "million".
func (p *parser) measured(n *node) *node {
	var words []string
	for p.at < len(p.tokens) {
		t := p.peek()
		switch {
		case p.approximates(p.at):
			return p.unit(n, words)
		case (t.kind == prose || t.kind == word) && !isSeparator(t.text), t.is(symbol, "%"), p.isCurrency(),
			len(words) > 0 && t.is(symbol, "/"),
			t.kind == letter && p.tokens[p.at-1].is(symbol, "/") && unitOf(t.text) != "":
			words = append(words, t.text)
			p.at++
		case len(words) > 0 && t.is(command, "cdot") && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == prose:
			words = append(words, "·")
			p.at++
		case len(words) > 0 && t.is(symbol, "^"):
			p.at++
			braces := p.take(symbol, "{")
			exponent := "^"
			if p.take(symbol, "-") {
				exponent = "^-"
			}
			words = append(words, exponent, p.peek().text)
			p.at++
			if braces {
				p.expect(symbol, "}")
			}
		default:
			return p.unit(n, words)
		}
	}
	return p.unit(n, words)
}

func (p *parser) unit(n *node, words []string) *node {
	if len(words) == 0 {
		return n
	}
	if !n.isValue() {
		return p.fail()
	}
	text := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	text = strings.NewReplacer(" ^ ", "^", " ^- ", "^-", " / ", "/", " · ", "·").Replace(text)
	for unitOf(text) == "" {
		name, rest := firstScale(text)
		if name == "" {
			break
		}
		n = p.make(opMul, "", n, p.num(big.NewRat(scales[name], 1)))
		text = rest
	}
	text, symbols := strings.ToLower(text), text
	// Only one or two plain words are a label. Other words may change the meaning: "more than one", "(mod 7)".
	unit := unitOf(symbols)
	switch {
	case text == "":
		return n
	case unit != "":
	case text == "unit", text == "units", text == "square units", text == "cubic units":
		return n
	case isLabel(text):
		unit = "?"
	case isLabel(strings.TrimPrefix(text, ordinalUnit+" ")): // 4th floor
		unit = ordinalUnit
	default:
		return p.fail()
	}
	return p.withUnit(n, unit)
}

// firstScale returns the scale at the start of text, and the rest. In "5万元" no space separates them.
func firstScale(text string) (name, rest string) {
	first, rest, _ := strings.Cut(text, " ")
	if name = strings.ToLower(first); scales[name] != 0 {
		return name, rest
	}
	for name = range scales {
		if name[0] > unicode.MaxASCII && strings.HasPrefix(text, name) && unicode.Is(unicode.Han, []rune(name)[0]) {
			return name, strings.TrimPrefix(text, name)
		}
	}
	return "", text
}

// isLabel reports whether text names what is counted, as "apples" and "años" do. Words in scripts without spaces, such
// as Chinese, are not labels, because they may change the meaning.
func isLabel(text string) bool {
	other := func(r rune) bool {
		return r != ' ' && !isASCIILetter(r) && !unicode.In(r, unicode.Latin, unicode.Cyrillic, unicode.Greek)
	}
	return len(strings.Fields(text)) <= 2 && !strings.ContainsFunc(text, other) && !isQualifier(text)
}

// isQualifier reports whether text changes the meaning of the number before it, as "mod 7" and "halves" do. Other text
// names what is counted, such as "apples".
func isQualifier(text string) bool {
	for w := range strings.FieldsSeq(text) {
		if scales[w] != 0 || qualifiers[w] || utf8.RuneCountInString(w) == 1 {
			return true
		}
	}
	return false
}

var qualifiers = set(`
	mod modulo remainder and or to from not no half halves third thirds quarter quarters tenth
	tenths hundredth hundredths plus minus times over squared cubed more less than at per if for
	when where except by with without factorial base radical root pi hundreds thousands millions
	billions th st nd rd am pm is approximately about twice double negative dozens
	ou o y e und oder et и или más mas menos mais moins plus mehr weniger über unter больше меньше более менее
	environ etwa около mindestens höchstens
`)

// bareUnits are the units of two or three letters that are a word even without \text. More than three letters are
// always a word.
var bareUnits = set("cm mm km kg ft hr hrs mph lbs kWh keV MeV GeV kHz MHz GHz kPa mol " +
	"USD EUR GBP JPY CNY RMB INR yen won")

// knownUnits maps the names of units to canonical names. Other words are labels, as in "12 apples".
var knownUnits = meanings(`
	%=%,percent dollar=dollar,usd cent=cent euro=euro,eur aud=aud gbp=gbp ¥=¥ yen=yen,jpy yuan=yuan,rmb,cny
	rupee=rupee,rs,inr ruble=ruble won=won degree=degree,° radian=radian °C=celsius,°c °F=fahrenheit,°f
	in=in,inch,inche ft=ft,foot,feet yd=yd,yard mi=mi,mile lb=lb,lbs pound=pound oz=oz,ounce
	s=s,sec min=min,minute h=h,hr,hrs,hour day=day week=week month=month year=year
	mm=mm cm=cm m=m km=km mg=mg g=g kg=kg ml=ml l=l hz=hz ` + ordinalUnit + "=" + ordinalUnit)

// metricUnits maps the names and the signs of units that may have a metric prefix to canonical names. Case matters in
// signs: mW is not MW.
var metricUnits = meanings(`
	m=m,meter,metre g=g,gram l=l,L,liter,litre s=s,second hz=Hz,hertz newton=N,newton joule=J,joule watt=W,watt
	watt-hour=Wh volt=V,volt ampere=A,amp,ampere kelvin=K,kelvin coulomb=C,coulomb farad=F,farad tesla=T,tesla
	henry=H,henry ohm=Ω,ohm pascal=Pa,pascal eV=eV,electronvolt mol=mol,mole molar=M cal=cal,calorie`)

// prefixes maps metric prefixes, as names and as signs, to signs.
var prefixes = meanings("k=k,kilo M=M,mega G=G,giga c=c,centi m=m,milli µ=µ,μ,micro n=n,nano p=p d=d")

// foreignUnits maps units in other languages to units in English. A value of "?" only says that text is a unit.
var foreignUnits = func() map[string]string {
	units := map[string]string{}
	for line := range strings.Lines(foreignNames) {
		if unit, names, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			for name := range strings.FieldsSeq(names) {
				units[name] = unit
			}
		}
	}
	return units
}()

const foreignNames = `
	m = 米 メートル 미터 м метр метра метров metro metri mètre मीटर متر
	cm = 厘米 公分 センチメートル センチ 센티미터 см сантиметров centímetro centimetro centimètre zentimeter सेमी سم
	mm = 毫米 ミリメートル мм миллиметров milímetro millimètre
	km = 千米 公里 キロメートル キロ 킬로미터 км километров километра kilómetro quilômetro kilomètre किमी كم
	dm = 分米 дм
	g = 克 グラム 그램 г грамм грамма gramm gramme gramo grama grammi
	kg = 千克 公斤 キログラム 킬로그램 кг килограмм килограммов kilogramm kilogramme kilogramo quilograma किलोग्राम
	mg = 毫克 мг
	l = 升 リットル л литр литра литров litro
	ml = 毫升 мл
	s = 秒 초 с сек секунд секунды sekunde sekunden seconde segundo secondi
	min = 分钟 分鐘 мин минут минуты minuten minuto minuti
	h = 小时 小時 時間 시간 ч час часа часов stunde stunden heure hora ore घंटे ساعة
	day = 天 日 дней день дня tage tagen jour día dia giorni
	week = 周 星期 неделя недели недель woche wochen semaine semana settimane
	month = 个月 個月 месяц месяца месяцев monat monate mois mese mesi
	year = 年 歳 岁 год года лет jahr jahre jahren an année año ano anni
	m^2 = 平方米 平方メートル
	cm^2 = 平方厘米 平方センチメートル
	km^2 = 平方千米 平方公里
	m^3 = 立方米 立方メートル
	cm^3 = 立方厘米
	dollar = 美元 美金 ドル 달러 доллар доллара долларов dólar dólare dolare
	euro = 欧元 ユーロ 유로 евро
	gbp = 英镑
	yuan = 元 块钱 人民币
	yen = 円 日元
	won = 원 韩元
	ruble = руб рубль рубля рублей
	rupee = रुपये रुपए 卢比
	degree = 度 도 градус градуса градусов grad grado degré grau gradi
	°C = 摄氏度 攝氏度
	°F = 华氏度
	newton = 牛 牛顿 Н ньютон ньютонов
	joule = 焦 焦耳 Дж джоуль джоулей
	watt = 瓦 瓦特 Вт ватт
	volt = 伏 伏特 В вольт
	ampere = 安 安培 А ампер
	ohm = 欧 欧姆 Ом ом
	hz = 赫兹 Гц
	pascal = 帕 Па
	? = 个 個 个人 只 隻 人 名 本 张 張 条 件 次 种 種 块 棵 辆 支 枚 台 位 头 套 箱 袋 瓶 页 頁 倍 组 組 回 匹 冊 つ 分 点 개 명 번 분 마리 권 살
`

// sharedNames maps names to the units that they may mean.
var sharedNames = map[string][]string{
	"pound": {"lb", "gbp"}, "degree": {"°C", "°F"}, "¥": {"yen", "yuan"},
}

// scales maps words to the factors by which they multiply the number before them.
var scales = map[string]int64{
	"dozen": 12, "hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12,
	"百": 100, "千": 1e3, "万": 1e4, "萬": 1e4, "亿": 1e8, "億": 1e8,
	"тысяч": 1e3, "тысячи": 1e3, "тысяча": 1e3, "миллион": 1e6, "миллиона": 1e6, "миллионов": 1e6,
	"millones": 1e6, "millón": 1e6, "millionen": 1e6, "millionen.": 1e6, "mille": 1e3, "tausend": 1e3,
	"milhões": 1e6, "milhão": 1e6, "milioni": 1e6, "milione": 1e6,
}

// unitOf returns the canonical name of a unit such as "square centimeters", "km/h", "kg·m/s^2" or "miles per hour". It
// returns "" if a part of the unit is unknown.
func unitOf(text string) string {
	text = strings.ReplaceAll(unitSigns.Replace(text), " per ", "/")
	if speed := speeds[strings.ToLower(text)]; speed != "" {
		text = speed
	}
	powers, sign := map[string]int{}, 1
	for {
		end := strings.IndexAny(text, "/·*")
		part := text
		if end >= 0 {
			part = text[:end]
		}
		name, power := unitPart(part)
		if name == "" && strings.Contains(part, " ") { // kg K
			text = strings.Replace(text, " ", "·", 1)
			continue
		}
		if name == "" {
			return ""
		}
		powers[name] += sign * power
		if end < 0 {
			break
		}
		mark, size := utf8.DecodeRuneInString(text[end:])
		if mark == '/' {
			sign = -1
		}
		text = text[end+size:]
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(powers)) {
		if power := powers[name]; power != 1 {
			name += "^" + strconv.Itoa(power)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " ")
}

var speeds = map[string]string{"mph": "mi/h", "kmh": "km/h", "kph": "km/h"}

// unitPart returns the canonical name of a unit without products, and its power. The name is "" if it is unknown.
func unitPart(text string) (name string, power int) {
	power = 1
	for w := range strings.FieldsSeq(strings.Trim(text, ". ()")) {
		switch lower := strings.ToLower(w); {
		case lower == "square", lower == "sq", lower == "sq.":
			power = 2
		case lower == "cubic":
			power = 3
		case name == "", strings.TrimSuffix(strings.ToLower(name), "s") == "degree": // degrees Celsius
			name = w
		default:
			return "", 0
		}
	}
	name, exponent, _ := strings.Cut(name, "^")
	name, squared, _ := strings.Cut(unitName(name), "^")
	for _, e := range []string{exponent, squared} {
		if n, err := strconv.Atoi(e); err == nil {
			power *= n
		} else if e != "" {
			return "", 0
		}
	}
	return name, power
}

// unitName returns the canonical name of a unit, which may have an exponent. It returns "" for other names.
func unitName(name string) string {
	lower := strings.ToLower(name)
	single := strings.TrimSuffix(lower, "s")
	for _, known := range []string{metricUnit(name), foreignUnits[name], knownUnits[lower], knownUnits[single],
		foreignUnits[lower], foreignUnits[single]} {
		if known != "" {
			return known
		}
	}
	if len(single) > 2 {
		return metricUnit(single)
	}
	return ""
}

// metricUnit returns the canonical name of a unit of metricUnits with or without a prefix, or "".
func metricUnit(name string) string {
	if unit := metricUnits[name]; unit != "" || name == "pm" { // pm is a time of day
		return unit
	}
	for prefix, sign := range prefixes {
		rest, ok := strings.CutPrefix(name, prefix)
		if unit := metricUnits[rest]; ok && unit != "" && (utf8.RuneCountInString(prefix) > 1) == (len(rest) > 3) {
			return sign + unit
		}
	}
	return ""
}
