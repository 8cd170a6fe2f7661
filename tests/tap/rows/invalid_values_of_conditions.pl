# Tests that each value which a column's type, or PostgreSQL's JSON, cannot hold is rejected with error 107, which has the
# number of the request and names the column: numbers with large exponents, NUL characters, halves of surrogate pairs,
# deep nesting, duplicate names, values out of range. None of them is an error of the server or closes the connection.
use strict;
use warnings;
use utf8;

use Clairon::Test qw(token);
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

# Types, and texts that each of them rejects.
my %types = (
    int2 => [qw(32768 x 1.5)], int4 => [qw(2147483648 -2147483649)], int8 => [qw(9223372036854775808 NaN)], numeric => [qw(x 1e999999)],
    float4 => [qw(1e39 x)], float8 => [qw(1e309)], bool => [qw(maybe 2)], uuid => [qw(7 123e4567-e89b-12d3-a456-42661417400)],
    state => [qw(lost OPEN)], date => [qw(2024-02-30 5874898-01-01)], timestamptz => [qw(294277-01-01 2024-01-01T25:00Z)], timestamp => [qw(294277-01-01)],
    timetz => [qw(25:00)], interval => [ '999999999999 years', '1e999 days' ], bytea => [ 'a', '*', '\xg' ], inet => [qw(1.2.3.256)], macaddr => [qw(1:2)],
    oid => [qw(4294967296)], pg_lsn => [qw(1)], bit => [qw(2)], jsonb => [ '{"a":1e999999}', '{"a":"\\u0000"}', '[' x 1000 ], int4range => [ '[5,1)', '[1' ],
    'int4[]' => [ '{1', '{99999999999}', '[1]' ], pair => [ '(1)', '(x,1)', '(1,2,3)' ], positive => [qw(x)], money => [qw(x)], regclass => [qw(nothing a.b.c.d)],
);
my @columns = sort keys %types;
my %name_of = map { $columns[$_] => "c$_" } 0 .. $#columns;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TYPE state AS ENUM ('open', 'done');
    CREATE TYPE pair AS (a int, b int);
    CREATE DOMAIN positive AS int CHECK (VALUE > 0)});
my @ordered = split /\n/, $pg->safe_psql('postgres', q{SELECT name FROM unnest(ARRAY[} . join(',', map { "'$_'" } @columns)
      . q{]) name WHERE clairon_internal.has_order(name::regtype)});
my $list = join ',', map { "$name_of{$_} $_" } @ordered;
my $names = join ',', 'title', map { $name_of{$_} } @ordered;
$pg->safe_psql('postgres', qq{
    CREATE TABLE tasks (id int PRIMARY KEY, title text, $list);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'ALL', live => true, filter_columns => '{$names}')});
cmp_ok(scalar @ordered, '>=', 25, "the types have a default order: @ordered");
my $relay = Clairon::Test::relay($pg, Clairon::Test::store());
my $client = $relay->client('u1');
my $json = JSON->new->canonical->allow_nonref;
my $next = 10;

# Send `fields`, a text of JSON, as it is. Each returns the code and the text of the error, [0, the frame] if there is none.
sub over_websocket
{
    my ($fields) = @_;
    my $r = ++$next;
    $client->send_text(qq({"t":"rows","r":$r,"source":"tasks",$fields}));
    my $frame = $client->wait_for(sub { ($_[0]{r} // 0) == $r });
    return $frame->{t} eq 'err' ? [ $frame->{code}, $frame->{msg} ] : [ 0, $json->encode($frame) ];
}

sub over_http
{
    my ($fields) = @_;
    my ($field, $value) = $fields =~ /^"(\w+)":(.*)$/s or die "unexpected fields: $fields";
    my ($status, $body) = $relay->get("/v1/rows?source=tasks&$field=" . ($value =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02x', ord $1/ger),
        Authorization => 'Bearer ' . token(sub => 'u1'));
    my $reply = JSON::decode_json($body);
    return $status == 200 ? [ 0, $body ] : [ $reply->{code}, $reply->{detail} ];
}

# JSON that no type reads, or that no condition may contain.
my @numbers = qw(1e999999 -1e999999 0e2000000000 1e-999999 1e4097 1e400 -1E+400 1e-4097 12345678901234567890);
my @anything = ('"\u0000"', '"a\u0000b"', '"\ud800"', '"\udc00x"', '"\ud800\ud800"', '{"a":1,"a":2}', '{"from":1,"from":2}', '[' x 3000, '[[1]]', '{"from":{}}', 'true false');
my @wrapped = (sub { $_[0] }, sub { "[1,$_[0]]" }, sub { qq({"from":$_[0]}) });
for my $over ([ WebSocket => \&over_websocket ], [ HTTP => \&over_http ])
{
    my ($name, $request) = @$over;
    my @unexpected;
    my $expect = sub {
        my ($column, $fields) = @_;
        my ($code, $text) = @{ $request->($fields) };
        push @unexpected, substr($fields, 0, 100) . ": $code, $text" if $code != 107 || $text !~ $column;
    };
    for my $type (@ordered)
    {
        my $column = $name_of{$type};
        for my $value (map { $json->encode($_) } @{ $types{$type} })
        {
            $expect->(qr/column "$column"/, qq("where":{"$column":$value}));
            $expect->(qr/column "$column"/, qq("where":{"$column":[null,$value]}));
            $expect->(qr/column "$column"/, qq("where":{"$column":{"to":$value}}));
        }
    }
    my $int4 = $name_of{int4};
    for my $value (@numbers)
    {
        $expect->(qr/\b$int4\b/, sprintf '"where":{"%s":%s}', $int4, $_->($value)) for @wrapped;
        $expect->(qr/"after/, qq("after":[$value]));
    }
    for my $value (grep { !/true false/ && ($name eq 'WebSocket' || length $_ < 1000) } @anything)
    {
        $expect->(qr/\bwhere\.$int4\b|column "$int4"|nested/, qq("where":{"$int4":$value) . (']' x ($value =~ /^\[+$/ ? length $value : 0)) . '}');
    }
    $expect->(qr/"where.title"/, qq("where":{"title":1,"title":2}));
    is(join("\n", @unexpected), '', "invalid values return error 107, which names the column, over $name");
    is_deeply($request->(qq("where":{"$int4":5}))->[0], 0, "a valid value is accepted, over $name");
    is($request->(qq("where":{"$name_of{numeric}":1e300}))->[0], 0, "a large number is accepted, over $name");
    is($request->(qq("where":{"$name_of{numeric}":"NaN"}))->[0], 0, "a value that only a text holds is accepted, over $name");
}
ok(!$client->{closed}, 'the connection stays open');
is_deeply([ slurp_file($pg->logfile) =~ /^.*(?:ERROR|FATAL|PANIC): .*$/mg ], [], 'invalid values cause no error of the server');

done_testing();
