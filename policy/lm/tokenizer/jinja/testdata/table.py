"""Writes what Jinja2 makes of small templates, with the settings of Hugging Face's apply_chat_template.

python3 testdata/table.py > testdata/table.json     (jinja2 3.1.6: the package python3-jinja2 of Debian, or of PyPI)
"""
import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes

assert jinja2.__version__ == "3.1.6", jinja2.__version__


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
environment.filters["tojson"] = tojson
values = json.loads("""{
 "n": null, "yes": true, "no": false, "i": 7, "m": -7, "f": 2.5, "s": "Hello World", "u": "é日本😀ß", "e": "", "q": "it's",
 "lines": "a\\nb\\r\\nc", "l": [3, 1, 2], "mixed": [null, true, 1, 2.5, "a\\nb", "it's", [1], {"k": "v"}], "none": [], "empty": {},
 "d": {"b": 1, "A": 2, "c": 3}, "tool": {"size": {"type": "number"}, "colour": {"type": "string"}},
 "people": [{"name": "Bob", "age": 20, "town": {"x": "b"}}, {"name": "ann", "age": 30, "town": {"x": "A"}}, {"name": "Cid", "age": 20}],
 "words": ["b", "A", "c", "B", "a"], "big": 12345678901234567890, "tree": [{"v": 1, "c": [{"v": 2, "c": []}]}, {"v": 3, "c": []}]
}""")

expressions = r"""
n ~ yes ~ no ~ i ~ f ~ s ~ u
mixed
[n, yes, 'a\nb', "it's", 'say "x"', 'both \' and "', '\t\\', 'é', '\x00\x7f\u200b']
(1,)
(1, 'a')
()
{}
{'a': none, 1: [true], 'q': q}
{'a': 1}.items()
{'a': 1}.keys()
{'a': 1}.values()
range(3)
range(1, 10, 3)
range(3)|list
range(5, 0, -2)|list
namespace(a=1, b='x').b
dict(b=1, a=2)
dict([('x', 1), ('y', 2)])
missing
missing is defined
missing.x
d.missing
d.missing.x
1.0
1e16
1e-5
123456789.123
1e100
-0.0
0.1 + 0.2
1_000
0x1F
0b101
0o17
1.5e3
i + m
i - m
i * m
i / m
i // 2
i // -2
m // 2
m // -2
m % 3
i % -3
m % -3
f // 2
-f // 2
-f % 2
f % -2
i / 2
7 // 2.0
2 ** 3
2 ** -1
2 ** 0.5
-2 ** 2
2 ** 3 ** 2
(-1) ** 5
0 ** 0
1 / 0
1 // 0
1 % 0
yes + 1
yes + yes
'a' + 'b'
'a' + 1
1 + 'a'
'a' + n
'a' + missing
missing + 'a'
[1] + [2]
(1,) + (2,)
[1] + (2,)
[1, 2] * 2
2 * [1]
[1] * 0
[1] * -1
'ab' * 3
3 * 'ab'
(1,) * 2
'a' * 1.5
'a' ~ 1 ~ n ~ missing ~ [1]
1 ~ 2 + 3
'%s-%d-%.2f' % ('a', 3, 2.5)
'%5d|%-5d|%05d|%+d|%x|%X|%o|%e|%g|%%' % (42, 42, 42, 42, 255, 255, 8, 12345.678, 0.0001)
'%r %s' % ('a', n)
'%(a)s' % {'a': 1}
'%s' % [1]
'%s %s' % (1,)
'%s' % (1, 2)
not 1
not missing
not []
1 and 2
0 and 2
0 or 'x'
'' or none
none and 1
1 < 2
1 < 2 < 3
1 < 2 > 3
3 > 2 >= 2 != 1
1 == 1.0
1 == true
'a' == 'a'
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
[1] == (1,)
[1, [2]] == [1, [2]]
d == {'A': 2, 'b': 1, 'c': 3}
n == none
missing == none
missing == other
missing < 1
1 in [1, 2]
'1' in [1, 2]
'b' in d
1 in d
'ell' in s
1 in 'abc'
1 not in l
none in mixed
1 in missing
'a' in none
1 if yes else 2
1 if no else 2
1 if no
'x' if no else 'y' if no else 'z'
(1 if yes else 2) + 1
[1 if yes else 2, 3]
-1|abs
-3|abs + 1
2 + 3 * 4
(2 + 3) * 4
10 - 2 - 3
100 // 7 // 2
1 + 2 ~ 3
+i
-m
--i
-'a'
s[0]
s[-1]
s[20]
s[0:5]
s[:5]
s[6:]
s[::-1]
s[-3:-1]
s[::2]
s[10:2:-3]
u[0] ~ u[1] ~ u[-1]
u[1:3]
u|length
u|upper
u|lower
u|reverse
u|first
u|last
u|list
u.find('本')
u.center(9, '·')
l[0]
l[-1]
l[5]
l[-5]
l['a']
l[1:]
l[::-1]
l[true]
(1, 2, 3)[1:]
range(10)[2:5]
range(10)[3]
d['b']
d.b
d['x']
d[1]
{1: 'a'}[1]
{1: 'a'}[1.0]
tool.size.type
tool['size']['type']
people[0].name
people[0]['town'].x
people.0.name
n.x
n[0]
i.x
d.items()
d.get('b')
d.get('x')
d.get('x', 5)
d.keys()|list
d.values()|list
d.items()|list
d.copy()
d.update({'x': 1})
d.pop('b')
l.append(4)
l.index(1)
l.count(1)
l.index(9)
f(1)
s()
missing()
[3, 1, 2]|sort|join(',')
s.upper()
s.lower()
s.swapcase()
s.title()
s.capitalize()
'they\'re bill\'s'.title()
'ß'.upper()
'hello world-foo (bar)'|title
"it's a dog's"|title
s.split()
s.split('o')
s.split('o', 1)
s.rsplit('o', 1)
'a,b,,c'.split(',')
''.split()
''.split(',')
'  a  b '.split()
' a  b  c '.split(none, 1)
' a  b  c '.rsplit(none, 1)
'a'.split('')
lines.splitlines()
lines.splitlines(true)
s.strip('Hd')
'  x '.strip() ~ '|'
'  x '.lstrip() ~ '|'
'  x '.rstrip() ~ '|'
'xxaxx'.lstrip('x')
s.startswith('Hell')
s.startswith(('x', 'H'))
s.endswith('ld')
s.startswith('World', 6)
s.find('o')
s.find('o', 5)
s.rfind('o')
s.find('x')
s.index('o')
s.index('x')
s.count('o')
s.replace('o', '0')
s.replace('o', '0', 1)
'aaa'.replace('', '-')
', '.join(['a', 'b'])
', '.join([1])
'-'.join('abc')
s.removeprefix('Hello ')
s.removesuffix('ld')
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'7'.zfill(3)
'-7'.zfill(4)
'x'.ljust(3) ~ '|'
'x'.rjust(3, '.')
'x'.center(4) ~ '|'
'xy'.center(5, '*')
'abc'.isalpha() ~ '12'.isdigit() ~ 'a1'.isalnum() ~ ' '.isspace() ~ 'ab'.islower() ~ 'AB'.isupper() ~ ''.isalpha() ~ 'Ab Cd'.istitle() ~ 'é'.isascii()
'½'.isnumeric() ~ '½'.isdigit() ~ '²'.isdigit() ~ '²'.isdecimal()
'{} {}'.format(1, 'a')
'{1} {0}'.format(1, 'a')
'{a} {b[0]} {{}}'.format(a=1, b=[2])
'{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:+}|{:x}|{:%}'.format('a', 'b', 'c', 42, 3.14159, 1234567, 5, 255, 0.5)
'{:*^9}'.format('mid')
'{!r}'.format('a')
'{}'.format()
s.casefold()
s.nothing()
-5|abs
2.5|abs
'a'|abs
d|attr('b')
[1, 2, 3, 4, 5]|batch(2)|list
[1, 2, 3]|batch(2, 'x')|list
s|capitalize
u|capitalize
'x'|center(5) ~ '|'
s|count
missing|d('x')
n|default('x')
n|default('x', true)
''|default('x')
''|default('x', boolean=true)
missing|default
d|dictsort
d|dictsort(true)
d|dictsort(by='value')
d|dictsort(reverse=true)
d|dictsort(false, 'value', true)
d|dictsort(by='x')
tool|dictsort
{2: 'a', 1: 'b'}|dictsort
{2: 'a', 'x': 'b'}|dictsort
[1]|dictsort
'<a href="x">\'&'|e
'<a>'|escape
'<a>'|e|e
'<a>'|e ~ '<b>'
'<a>'|e + '<b>'
'<a>'|safe ~ '<b>'
'<a>'|e|forceescape
'<a>'|e|upper
1000|filesizeformat
1|filesizeformat
999|filesizeformat
1234567|filesizeformat
1048576|filesizeformat(true)
l|first
none|first
[]|first
s|first
l|map('string')|first
'3.5'|float
'x'|float
'x'|float(1.5)
n|float
'1e3'|float
i|float
'%s-%s'|format('a', 1)
'%(a)s'|format(a=1)
people|groupby('age')
people|groupby('name')|map('first')|list
people|groupby('town.x', default='z')|list
lines|indent
lines|indent(2, true)
lines|indent('> ')
'a\n\nb'|indent(2, blank=true)
'a\n\nb'|indent(2)
1|indent
'42'|int
'42.9'|int
'x'|int
'x'|int(5)
'0x1f'|int(0, 16)
'ff'|int(base=16)
'101'|int(base=2)
2.9|int
-2.9|int
n|int
true|int
' 7 '|int
d|items|list
missing|items|list
l|items|list
l|join
l|join('-')
people|join(', ', attribute='name')
'abc'|join('-')
mixed|join('|')
l|last
s|last
[]|last
l|map('string')|last
s|length
l|length
d|length
5|length
missing|length
l|map('string')|length
'abc'|list
d|list
missing|list
5|list
s|lower
5|lower
people|map(attribute='name')|list
people|map(attribute='town.x')|list
people|map(attribute='town.x', default='?')|list
people|map(attribute='age')|sum
words|map('upper')|join
l|map('string')|list
l|map('nothing')|list
people|map('attr', 'name')|list
['a', 'b']|map('replace', 'a', 'x')|list
l|max
words|max
words|max(case_sensitive=true)
people|max(attribute='age')
[]|max
l|min
words|min
words|min(true)
[1, 'a']|min
[0, 1, 2]|reject|list
l|reject('odd')|list
l|reject('>', 1)|list
people|rejectattr('town')|map(attribute='name')|list
people|rejectattr('age', 'equalto', 20)|map(attribute='name')|list
s|replace('o', '0')
s|replace('o', '0', 1)
1212|replace(1, 3)
l|reverse|list
s|reverse
range(3)|reverse|list
2.5|round
3.5|round
2.675|round(2)
42.55|round
42.55|round(1, 'floor')
42.51|round(1, 'ceil')
42|round
42|round(-1)
1234.5|round(-2)
7|round(0, 'floor')
-2.5|round
0.5|round|int
s|safe
[0, 1, 2]|select|list
l|select('odd')|list
l|select('in', [1, 2])|list
l|select('divisibleby', 3)|list
people|selectattr('age', '==', 20)|map(attribute='name')|list
people|selectattr('town')|map(attribute='name')|list
people|selectattr('town', 'defined')|map(attribute='name')|list
people|selectattr('age', '>', 25)|list|length
[1, 2, 3, 4, 5]|slice(2)|list
[1, 2, 3, 4, 5]|slice(3, 'x')|list
l|sort
l|sort(true)
words|sort
words|sort(case_sensitive=true)
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(reverse=true, attribute='age')|map(attribute='name')|list
[1, 'a']|sort
'bca'|sort
5|string
l|string
'<a>'|e|string
'<p>a  <b>b</b> &amp; c<!-- x --></p>'|striptags
l|sum
l|sum(start=10)
people|sum(attribute='age')
[]|sum
['a']|sum
[[1], [2]]|sum(start=[])
[0.1, 0.2]|sum
s|title
mixed|tojson
d|tojson
d|tojson(indent=2)
mixed|tojson(indent=1)
d|tojson(true, 4)
d|tojson(sort_keys=true)
d|tojson(separators=(',', ':'))
u|tojson
u|tojson(ensure_ascii=true)
'<a> & \' "'|tojson
'\u2028\x7f\x01'|tojson
{1: 'a', true: 2, none: 3, 2.5: 4}|tojson
(1, 2)|tojson
[]|tojson(indent=2) ~ {}|tojson(indent=2)
1e16|tojson
big
big|tojson
missing|tojson
d.items()|tojson
range(3)|tojson
'  x '|trim ~ '|'
'xxaxx'|trim('x')
'\u00a0x\u3000'|trim
5|trim
s|truncate(8)
s|truncate(8, true)
'a b c d e f g h i j'|truncate(9, false, '…', 0)
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar'|truncate(2)
words|unique|list
words|unique(true)|list
people|unique(attribute='age')|map(attribute='name')|list
[1, 1.0, true, '1']|unique|list
[[1]]|unique|list
s|upper
'a b/c?é'|urlencode
d|urlencode
[('a', 'x y'), ('b', '&')]|urlencode
s|wordcount
"it's a x-y_z 12"|wordcount
{'a': 1, 'b': none, 'c': '<'}|xmlattr
{'a': 1}|xmlattr(false)
{'a b': 1}|xmlattr
s|nothing
5 is nothing
yes is boolean
1 is boolean
range is callable
s is callable
missing is callable
n is defined
i is divisibleby 7
i is divisibleby(2)
8 is divisibleby 2 and yes
i == 7 is true
1 is eq 1
1 is equalto(2)
1 is == 1
'<'|e is escaped
'<' is escaped
i is even
i is odd
m is odd
no is false
0 is false
'upper' is filter
'x' is filter
f is float
i is float
2 is ge 2
1 is gt 1
1 is greaterthan 0
1 is in [1]
1 is not in [1]
'a' is in 'abc'
i is integer
yes is integer
f is integer
big is integer
s is iterable
5 is iterable
n is iterable
missing is iterable
l|map('string') is iterable
1 is le 1
1 is lt 1
0 is lessthan 1
'abc' is lower
'aBc' is lower
'1' is lower
d is mapping
l is mapping
empty is mapping
1 is ne 1
n is none
missing is none
i is number
yes is number
s is number
n is sameas none
1 is sameas 1
l is sameas l
[] is sameas []
s is sequence
l is sequence
d is sequence
5 is sequence
range(2) is sequence
d.keys() is sequence
missing is sequence
s is string
'<'|e is string
i is string
'even' is test
'x' is test
yes is true
1 is true
missing is undefined
n is undefined
'ABC' is upper
'AbC' is upper
i is not odd
not i is odd
i is odd if yes else 1
1 is odd is even
"a" "b" 'c'
'\u00e9\U0001F600\101\x41\q'
[1, 2,]
{'a': 1,}
range(2,)|list
(1)
((1))
[[1, 2][0]]
{'a': {'b': [5]}}.a.b[0]
l|sort|first
(l|sort)[0]
l|sort[0]
s|upper|lower|title
s.upper().lower()
dict(**{'a': 1})
range(*[1, 3])|list
range(100001)
'x' * 10 ~ 'y'
namespace(a=1)
[s, l]|map('first')|list
[1, 2] is eq [1, 2]
true and false or true
True and False or None
[True, False, None]
s in [s]
none|select|list
none|map('upper')|list
'x' % [1]
'x' % 1
n[1:]
i[1:]
d[1:]
range(3).count(1)
range(10)[::2]
[1] * true
missing|float
missing|int
{'a': 1}[d]
'abcabc'.count('a', 1)
'abcabc'.count('a', 1, 3)
'ß'.swapcase()
words|sort|join ~ (words|sort(attribute=0)|length)
[['b', 2], ['a', 1]]|sort(attribute=1)
[['b', 2], ['a', 1]]|map(attribute=0)|join
'%s' % [1, 2] ~ '%s' % d
'a,b'.split(',')[1:][0]
1 if missing else 2
'x' is in 'xyz'
'a' 'b' in 'ab'
1 in (1, 2)
"%s" % missing
"%d" % 'a'
[missing]
[missing]|join('-')
loop
i is
1 +
s.
s|
(1
[1
'a
1 2
a b
""
"""

templates = [
    "a\n{% if yes %}\nb\n{% endif %}\nc\n",
    "  {% if yes %}  b  {% endif %}  c",
    "a  {%- if yes %}  b  {%- endif %}  c",
    "a  {% if yes -%}  b  {% endif -%}  c",
    "a\n  {%+ if yes %}b{% endif +%}\n c",
    "a {# c #} b\n  {# d #}\ne{#- f -#} g",
    "a\n\n{{ i }}\n\n",
    "a\n",
    "a\r\nb\rc",
    " {{- i -}} x",
    "{{ i }}\n{% set x = 1 %}\n{{ x }}",
    "{% raw %}{{ i }}{% if %}{% endraw %}x",
    "a\n  {% raw %} b {% endraw %}\nc",
    "a {%- raw -%} b {%- endraw -%} c",
    "{% if no %}a{% elif yes %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif no %}b{% else %}c{% endif %}",
    "{% if a, b %}x{% endif %}",
    "{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}"
    "{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for c in u %}{{ c }}.{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}",
    "{% for x in missing %}a{% else %}none{% endfor %}",
    "{% for x in 5 %}a{% endfor %}",
    "{% for x in n %}a{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{{ loop.length }} {% endfor %}",
    "{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in tree recursive %}{{ x.v }}{{ loop.depth }}({{ loop(x.c) }}){% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for a in l %}{% for b in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% set x = 0 %}{% for a in l %}{{ x }}{% set x = a %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 0 %}{% if yes %}{% set x = 1 %}{% endif %}{{ x }}",
    "{% set ns = namespace(x=0) %}{% for a in l %}{% set ns.x = ns.x + a %}{% endfor %}{{ ns.x }}",
    "{% set d.x = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}a{{ i }}b{% endset %}{{ x|upper }}",
    "{% set x | upper | replace('A', 'z') %}a{{ i }}b{% endset %}{{ x }}",
    "{% set x = 1 if yes else 2 %}{{ x }}",
    "{% set i = i + 1 %}{{ i }}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}",
    "{% with a = i %}{% set i = 5 %}{{ a }}{{ i }}{% endwith %}{{ i }}",
    "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f() }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, x=2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}",
    "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(1) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}",
    "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{{ i }}{% endcall %}",
    "{% macro f() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) f() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro f(a) %}\n  <{{ a }}>\n{% endmacro %}{{ f(1)|trim }}{{ f(2)|length }}",
    "{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}",
    "{% macro f() %}{% set y = 5 %}{% endmacro %}{{ f() }}{{ y }}",
    "{% filter upper %}a{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b')|upper %}aa{% endfilter %}",
    "{% generation %}a{{ i }}{% endgeneration %}",
    "{% generation %}{% set z = 1 %}{{ z }}{% endgeneration %}{{ z }}",
    "{% do l %}",
    "{% break %}",
    "{% unknown %}",
    "{% if yes %}",
    "{% endif %}",
    "{% for x in l %}{{ x }}",
    "{{ i }",
    "{% if yes }}a{% endif %}",
    "{# a",
    "{% raw %}a",
    "{}{ }}{%%}",
    "{{ '}}' }}{{ \"%}\" }}{{ {'a': {'b': 1}}['a']['b'] }}",
    "{%if yes%}a{%endif%}{{i}}",
    "{%\n  set x = [\n 1,\n 2\n] \n%}\n{{ x }}",
    "{% for m in people %}\n    {%- if m.age > 20 %}\n        {{- m.name }}\n    {%- endif %}\n{%- endfor %}\n",
    "\t {% set x = 1 %} \n\t{% set y = 2 %}\nz",
    "{{ 1 }}  \n  {% if yes %}\n  a\n  {% endif %}  \n b",
    "{% macro f(x) -%}\n a {{ x }}\n{%- endmacro %}|{{ f(1) }}|",
    "{% set x = l|map('string')|list %}{% for a in x[::-1] %}{{ a }}{% endfor %}",
    "{% set g = l|map('string') %}{% for a in g %}{{ a }}{% endfor %}{% for a in g %}{{ a }}{% endfor %}",
    "{% for a in l %}{% set loop_last = loop.last %}{{ loop_last }}{% endfor %}",
    "{% if 'a' in s and s is string and s|length > 3 or no %}x{% endif %}",
    "{% for t in tool|dictsort %}{{ t[0] }}:{{ t[1].type }};{% endfor %}",
    "{%- for m in people -%}\n{{ m.name }}\n{%- endfor -%}\n",
    "{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for (a, (b)) in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% set ns = namespace({'x': 1}, y=2) %}{{ ns['x'] }}{{ ns['y'] }}{{ ns['z'] is defined }}",
    "{% for x in l %}{{ loop['index'] }}{% endfor %}",
    "{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|length }},{{ g[0] }}{% endfor %}",
    "{{ people|groupby('age')|map(attribute='grouper')|list }}{{ (1, 2, 3).list is defined }}",
]


def result(source):
    try:
        return {"template": source, "text": environment.from_string(source).render(**values)}
    except Exception as e:
        return {"template": source, "error": "%s: %s" % (type(e).__name__, e)}


cases = ["{{ %s }}" % line for line in expressions.strip("\n").split("\n")] + templates
json.dump({"values": values, "cases": [result(c) for c in cases]}, sys.stdout, ensure_ascii=False, indent=0)
print()
