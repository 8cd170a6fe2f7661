# Clairon::Test::Differential::Values: random values of all types, and the JSON of their text output.
#
#   my $types = Clairon::Test::Differential::Values->new;      # uses rand(): call srand() first
#   my $text  = $types->random('integer[]');                 # undef: NULL
#   my $json  = $types->json('integer[]', "{1,NULL}");       # [1,null]
#
# All strings are UTF-8 bytes. The JSON of a value is derived from PostgreSQL's text output alone, so this module shares
# no logic with the decoder.
package Clairon::Test::Differential::Values;

use strict;
use warnings;

use Exporter qw(import);
use MIME::Base64 qw(encode_base64);

our @EXPORT_OK = qw(pick chance whole json_string literal ident unquoted);

# The parts of strings: all cases that quoting, escaping or counting could handle incorrectly.
my @pieces = (
    'a', 'Zz', '0', ' ', '  ', "\n", "\t", "\r\n", "\\", "\\n", '"', "'", "''", ',', ';', '{', '}',
    '(', ')', '[', ']', ':', '$1', 'NULL', 'null', '%', "\x01", "\x1f", "\x7f", '/', '</script>',
    "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xe2\x80\xa8", "e\xcc\x81", "\xef\xbf\xbf",
    'abcdefghijklmno', 'abcdefghijklmnop', 'lorem ipsum dolor sit amet');

my @json_pieces = (
    'null', 'true', '-0', '1e5', '0.10', '12345678901234567890', '""', '"\\u00e9\\ud83d\\ude00"',
    '"a\\"b\\\\c\\/\\n"', '[]', '{}', '{"a": {"b": [1, 2.50, "x"]}, "": null}', '[ 1 , [ ] , { } ]',
    "{\n\t\"k\" : \"\xc3\xa9 , : \\\" {\" ,\r\n \"l\" : [true, false]}", '"  two  blanks  "',
    '{"z": 1, "a": {"z": [null, {"deep": [[[[1]]]]}]}}');

sub pick { return $_[int rand @_] }
sub chance { return rand() < $_[0] }
sub whole { return $_[0] + int rand($_[1] - $_[0] + 1) }

# ---- SQL literals

sub literal
{
    my ($text) = @_;
    return 'NULL' unless defined $text;
    $text =~ s/'/''/g;
    return "'$text'";
}

sub unquoted { my ($name) = @_; $name =~ s/^"(.*)"$/$1/s; return $name =~ s/""/"/gr }

sub ident { my ($name) = @_; $name =~ s/"/""/g; return "\"$name\"" }

# ---- random values

my $noise = '';    # hard to compress, so that long values are TOASTed

sub random_text
{
    my ($most) = @_;
    my $text = join '', map { pick(@pieces) } 1 .. whole(0, $most);
    return $text;
}

sub long_text
{
    my $len = whole(2500, 9000);
    return substr $noise, whole(0, length($noise) - $len), $len;
}

sub random_date
{
    my ($day) = @_;
    return pick('infinity', '-infinity') if chance(0.06);
    return sprintf('%04d-%02d-%02d%s BC', whole(1, 4000), whole(1, 12), whole(1, 28), $day)
        if chance(0.06);
    return sprintf('%d-%02d-%02d%s', whole(10000, 99999), whole(1, 12), whole(1, 28), $day)
        if chance(0.06);
    return sprintf('%04d-%02d-%02d%s', whole(1, 2500), whole(1, 12), whole(1, 28), $day);
}

sub random_clock
{
    my $fraction = pick('', '', '.5', '.000001', '.999999', '.120');
    return sprintf '%02d:%02d:%02d%s', whole(0, 23), whole(0, 59), whole(0, 59), $fraction;
}

sub random_number
{
    my ($digits) = @_;
    return pick(qw(NaN Infinity -Infinity)) if chance(0.05);
    my $text = join '', map { int rand 10 } 1 .. whole(1, $digits);
    $text .= '.' . join '', map { int rand 10 } 1 .. whole(1, $digits) if chance(0.5);
    return (chance(0.3) ? '-' : '') . $text;
}

sub random_float
{
    return pick(qw(NaN Infinity -Infinity 0 -0 0.1 1e-30 1.5e20 123456789 1e15 1e16 100000))
        if chance(0.4);
    return (rand() - 0.5) * 10**whole(-12, 12);
}

sub hex_bytes
{
    return join '', map { sprintf '%02x', int rand 256 } 1 .. $_[0];
}

sub short_text
{
    my $text = random_text(6);
    utf8::decode($text);
    $text = substr $text, 0, $_[0];
    utf8::encode($text);
    return $text;
}

# SQL type => a sub that returns a random value in PostgreSQL's input form.
my %scalar = (
    'smallint' => sub { whole(-32768, 32767) },
    'integer' => sub { pick(0, -1, 2147483647, -2147483648, whole(-100000, 100000)) },
    'bigint' => sub {
        pick(
            0, '9007199254740991', '9007199254740992', '-9007199254740991', '-9007199254740992',
            '9223372036854775807', '-9223372036854775808', whole(-1e12, 1e12));
    },
    'numeric' => sub { random_number(pick(3, 20, 80)) },
    'numeric(20,5)' => sub { whole(-1e9, 1e9) . '.' . whole(0, 99999) },
    'real' => sub { my $f = random_float(); $f },
    'double precision' => sub { pick('1.7976931348623157e308', '5e-324', random_float()) },
    'boolean' => sub { pick('t', 'f') },
    'text' => sub { chance(0.25) ? long_text() : random_text(12) },
    'character varying(60)' => sub { short_text(60) },
    'character(8)' => sub { short_text(8) },
    '"char"' => sub { pick('a' .. 'z') },
    'name' => sub { short_text(12) },
    'citext' => sub { random_text(8) },
    'uuid' => sub { my $h = hex_bytes(16); $h },
    'bytea' => sub { '\\x' . hex_bytes(chance(0.1) ? whole(2500, 4000) : whole(0, 40)) },
    'json' => sub { random_json(' ') },
    'jsonb' => sub { random_json('') },
    'date' => sub { random_date('') },
    'time' => sub { pick('24:00:00', random_clock()) },
    'time with time zone' => sub { random_clock() . pick('+00', '+05:30', '-11') },
    'timestamp' => sub { random_date(' ' . random_clock()) },
    'timestamp with time zone' =>
        sub { random_date(' ' . random_clock() . pick('+00', '+02', '-09:30')) },
    'interval' => sub {
        pick('0', '1 year 2 mons -3 days 04:05:06.789', '-1 day', whole(-1e6, 1e6) . ' seconds',
            '24 hours');
    },
    'inet' => sub { pick('::1', '10.' . whole(0, 255) . '.0.1/8', '2001:db8::/32') },
    'cidr' => sub { '10.' . whole(0, 255) . '.0.0/16' },
    'macaddr' => sub {
        join ':', map { sprintf '%02x', int rand 256 } 1 .. 6;
    },
    'bit(5)' => sub {
        join '', map { int rand 2 } 1 .. 5;
    },
    'bit varying' => sub {
        join '', map { int rand 2 } 1 .. whole(0, 30);
    },
    'money' => sub { whole(-1e8, 1e8) . '.' . whole(10, 99) },
    'oid' => sub { whole(0, 4294967295) },
    'point' => sub { '(' . whole(-9, 9) . ',' . whole(-9, 9) . '.25)' },
    'box' => sub { '((0,0),(' . whole(1, 9) . ',1))' },
    'int4range' => sub { pick('empty', '(,)', '[' . whole(0, 5) . ',' . whole(6, 9) . ')') },
    'nummultirange' => sub { pick('{}', '{[1,2),[3.5,4]}') },
    'tstzrange' => sub {'["2025-03-05 12:00:00+01",infinity)'},
    'tsvector' => sub {q{'a b':1 'c''d':2,3A}},
    'pg_lsn' => sub { sprintf '%X/%X', whole(0, 1000), whole(0, 1e9) },
    'xml' => sub { "<a b=\"1\">\n" . pick('x', "\xc3\xa9", '&amp;') . '</a>' },
    'hstore' => sub { pick('', 'a=>1, "b c"=>NULL', '"q\\"x"=>"y\\\\z"') },
    'ltree' => sub {
        join '.', map { pick(qw(top a b_1)) } 1 .. whole(1, 4);
    },
    'int2vector' => sub {
        join ' ', map { whole(-9, 9) } 1 .. whole(0, 4);
    },
    'oidvector' => sub {
        join ' ', map { whole(0, 9) } 1 .. whole(0, 4);
    },
    'mood' => sub { pick('sad', 'so so', "h\xc3\xa9ureux", '"quoted"') },
    'd_int' => sub { whole(1, 1000) },
    'd_text' => sub { 'x' . random_text(6) },
);

my @elements = (
    'integer', 'bigint', 'numeric', 'real', 'boolean', 'text', 'bytea', 'jsonb', 'date',
    'timestamp with time zone', 'uuid', 'mood', 'interval', 'd_int', 'character varying(60)');

# The conversion of text output to JSON; all other types become strings.
my %form = (
    'smallint' => 'number', 'integer' => 'number', 'bigint' => 'int8', 'real' => 'float',
    'double precision' => 'float', 'boolean' => 'bool', 'bytea' => 'bytea', 'json' => 'json',
    'jsonb' => 'json', 'timestamp without time zone' => 'stamp',
    'timestamp with time zone' => 'stamptz',
    'int2vector' => 'numbers', 'oidvector' => 'strings');

my %base =
    ('public.d_int' => 'integer', 'public.d_text' => 'text', 'public.d_array' => 'integer[]');

sub new
{
    my ($class) = @_;
    $noise = join '', map { pack 'n', 0x6161 + int(rand 25) * 256 + int(rand 25) } 1 .. 15000;
    my $self = { records => {} };
    return bless $self, $class;
}

sub setup_sql
{
    return q{
CREATE EXTENSION citext; CREATE EXTENSION hstore; CREATE EXTENSION ltree;
CREATE TYPE mood AS ENUM ('sad', 'so so', 'héureux', '"quoted"');
CREATE DOMAIN d_int AS int CHECK (VALUE > 0);
CREATE DOMAIN d_text AS text CHECK (VALUE <> '');
CREATE DOMAIN d_array AS int[];
};
}

sub types
{
    return (sort(keys %scalar), map {"$_\[]"} @elements), 'd_array';
}

sub random_json
{
    my ($blank) = @_;
    my $text = pick(@json_pieces);
    $text = "{\"same\":1,$blank\"same\":$text}" if chance(0.2);
    $text = "[$text, " . pick(@json_pieces) . ', "' . substr($noise, 0, whole(2500, 5000)) . '"]'
        if chance(0.1);
    return $text;
}

sub quoted_element
{
    my ($text) = @_;
    return 'NULL' unless defined $text;
    $text =~ s/(["\\])/\\$1/g;
    return "\"$text\"";
}

sub random
{
    my ($self, $type) = @_;
    return undef if chance(0.12);
    return $scalar{$type}->() if $scalar{$type};
    my $element = $type eq 'd_array' ? 'integer' : $type =~ s/\[\]$//r;
    my $row = sub {
        '{' . join(',', map { quoted_element($self->random($element)) } 1 .. $_[0]) . '}';
    };
    return '{}' if chance(0.1);
    if (chance(0.15))
    {
        my $width = whole(1, 3);
        return '{' . join(',', map { $row->($width) } 1 .. whole(1, 3)) . '}';
    }
    return '[2:3]=' . $row->(2) if chance(0.1);
    return $row->(whole(1, 5));
}

my %escape =
    ("\b" => '\\b', "\t" => '\\t', "\n" => '\\n', "\f" => '\\f', "\r" => '\\r', '"' => '\\"',
    '\\' => '\\\\');

sub json_string
{
    my ($text) = @_;
    $text =~ s/([\x00-\x1f"\\])/$escape{$1} \/\/ sprintf '\\u%04x', ord $1/ge;
    return "\"$text\"";
}

my %write = (
    number => sub { $_[0] },
    int8 => sub { $_[0] =~ /^-?\d{1,15}$/ || abs($_[0]) <= 9007199254740991 ? $_[0] : "\"$_[0]\"" },
    float => sub { $_[0] =~ /[NI]/ ? "\"$_[0]\"" : $_[0] },
    bool => sub { $_[0] =~ /^t/ ? 'true' : 'false' },
    bytea => sub { '"' . encode_base64(pack('H*', substr $_[0], 2), '') . '"' },
    json => sub { my $text = $_[0]; $text =~ s/("(?:[^"\\]|\\.)*+")|\s+/$1 \/\/ ''/ge; $text },
    stamp => sub { my $text = $_[0]; $text =~ s/ (?=\d)/T/; "\"$text\"" },
    stamptz => sub { my $text = $_[0]; $text =~ s/ (?=\d)/T/; $text =~ s/\+00/Z/; "\"$text\"" },
    numbers => sub { '[' . join(',', split / /, $_[0]) . ']' },
    strings => sub {
        '[' . join(',', map {"\"$_\""} split / /, $_[0]) . ']';
    },
    string => \&json_string,
);

# Returns the JSON of a value. `$type` is the output of format_type(). A row type has the attributes that were recorded
# last.
sub json
{
    my ($self, $type, $text) = @_;
    return 'null' unless defined $text;
    $type = $base{$type} // $type;
    return $self->array($1, $text) if $type =~ /^(.*)\[\]$/s;
    return $self->record($type, $text) if $self->{records}{$type};
    return $write{ $form{$type} // 'string' }->($text);
}

sub add_record
{
    my ($self, $type, $attributes) = @_;
    $self->{records}{$type} = $attributes;
    return;
}

# The text output of an array differs from JSON in braces, quotes and NULL.
sub array
{
    my ($self, $element, $text) = @_;
    my $out = '';
    $text =~ s/^(?:\[-?\d+:-?\d+\])+=//;
    while ($text =~ /\G(?:([{},])|"((?:[^"\\]|\\.)*+)"|([^{},"]+))/gs)
    {
        if (defined $1) { $out .= $1 =~ tr/{}/[]/r }
        elsif (defined $2) { $out .= $self->json($element, $2 =~ s/\\(.)/$1/gsr) }
        else { $out .= $3 eq 'NULL' ? 'null' : $self->json($element, $3) }
    }
    return $out;
}

sub record
{
    my ($self, $type, $text) = @_;
    my @values = ('');
    $text = substr $text, 1, -1;
    my @has_value = (0);
    while ($text =~ /\G(?:(,)|"((?:[^"\\]|\\.|"")*+)"|([^,"]+))/gs)
    {
        if (defined $1) { push @values, ''; push @has_value, 0; next }
        $values[-1] .= defined $2 ? $2 =~ s/(["\\])\1/$1/gr : $3;
        $has_value[-1] = 1;
    }
    my @attributes = @{ $self->{records}{$type} };
    die "row of $type has " . @values . ' values' if @attributes && @values != @attributes;
    return '{' . join(
        ',',
        map {
            json_string($attributes[$_][0]) . ':'
                . $self->json($attributes[$_][1], $has_value[$_] ? $values[$_] : undef)
        } 0 .. $#attributes) . '}';
}

1;
