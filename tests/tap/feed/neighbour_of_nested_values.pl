# Tests that values of nested types need little memory and time of the walsender: row types that contain each other a
# million times, and types whose output function prints other types.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Neighbour;
use List::Util qw(sum0);
use Test::More;

my $MEMORY = 150;    # MB

my $pg        = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store, conf => { 'feed.owner_memory' => '2MB', 'feed.owner_bytes' => '1000MB', 'feed.owner_time' => '10s' });
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
my $client    = $relay->client('mallory');

sub as_mallory { return $neighbour->run_as('mallory', $_[0]) }

# Returns the largest memory that the walsender has had, in MB.
sub peak
{
    my ($pid) = $neighbour->walsenders;
    open my $status, '<', "/proc/$pid/status" or die $!;
    my ($kilobytes) = join('', <$status>) =~ /^VmHWM:\s+(\d+)/m;
    return $kilobytes / 1024;
}

# Creates a table of mallory with the columns, and watches it.
sub create
{
    my ($table, $columns, $target) = @_;
    $target //= 'u';
    as_mallory("CREATE TABLE mallory.$table (id serial, u text DEFAULT 'mallory', $columns); SELECT clairon.watch('mallory.$table', 'USER', '$target')");
    return;
}

# Returns the next notification of the table.
my $read = 0;
sub next_row
{
    my ($table) = @_;
    my $payload;
    $client->run_until("a row of $table is delivered", sub {
        for (; $read < @{ $client->{messages} }; $read++)
        {
            my $message = $client->{messages}[$read];
            next if $message->{t} ne 'msg' || $message->{n}{metadata}{source} ne "mallory.$table";
            $payload = $message->{n}{payload};
            $read++;
            return 1;
        }
        return 0;
    });
    return $payload;
}

# The number of changes that were denied, by account.
sub denied
{
    my ($account) = @_;
    return $pg->safe_psql('postgres', qq{SELECT coalesce(sum(changes), 0) FROM clairon.status,
        jsonb_to_recordset(denied) AS d (account text, changes bigint) WHERE account = '$account'});
}

create('plain', 's text');
my $honest = $neighbour->worst_delay('text of 8 kB', q{INSERT INTO mallory.plain (s) SELECT string_agg(md5(i::text), '') FROM generate_series(1, 250) AS i});
is(length next_row('plain')->{after}{s}, 8000, 'the text is delivered');

# A row of $sql, of less than 40 kB.
sub compare
{
    my ($what, $sql) = @_;
    my $attack = $neighbour->worst_delay($what, $sql);
    $neighbour->is_unnoticed($what, $attack, $honest);
    cmp_ok(peak(), '<', $MEMORY, "$what: the memory of the walsender is limited");
    return;
}

# 2.4 million places, in 7 kB of WAL.
my ($inner, $outer) = (1600, 1500);
as_mallory('CREATE TYPE mallory.inner_type AS (' . join(', ', map { "c$_ int" } 1 .. $inner) . ')');
as_mallory('CREATE TYPE mallory.outer_type AS (' . join(', ', map { "d$_ mallory.inner_type" } 1 .. $outer) . ')');
my $value = "('(' || substr(repeat(',\"(" . (',' x ($inner - 1)) . ")\"', $outer), 2) || ')')::mallory.outer_type";
create("nested$_", 'v mallory.outer_type') for 1 .. 3;
compare('row types that contain each other', join ';', map { "INSERT INTO mallory.nested$_ (v) SELECT $value" } 1 .. 3);
create('few', 'v mallory.outer_type');
compare('a nested value with short JSON', q{INSERT INTO mallory.few (v.d7.c3) VALUES (5)});
my $row = next_row('few')->{after}{v};
is($row->{d7}{c3}, 5, 'a nested value is delivered');
is(keys %{ $row->{d7} }, $inner, 'with all members of the inner type');
is(sum0(map { defined } values %$row), 1, 'and the nulls of the outer type');

as_mallory('CREATE TYPE mallory.outer_range AS RANGE (subtype = mallory.outer_type)');
create('ranges', 'v mallory.outer_range');
compare('a range of nested values', "INSERT INTO mallory.ranges (v) SELECT mallory.outer_range($value, NULL)");
is_deeply(next_row('ranges')->{undecodable}, ['v'], 'a range that needs too much memory is undecodable');
create('targets', 'v mallory.outer_type', 'v');
compare('a nested value as the target', "INSERT INTO mallory.targets (v) SELECT $value");

as_mallory('CREATE TYPE mallory.number_range AS RANGE (subtype = numeric[])');
create('numbers', 'v mallory.number_range');
compare('a range of arrays of numbers that print long', 'INSERT INTO mallory.numbers (v) SELECT mallory.number_range(array_fill(1e131071, ARRAY[3000]), NULL)');
is_deeply(next_row('numbers')->{undecodable}, ['v'], 'a range that prints too long is undecodable');
as_mallory(q{INSERT INTO mallory.numbers (v) VALUES (mallory.number_range('{1,2}', '{1,3}'))});
is(next_row('numbers')->{after}{v}, '["{1,2}","{1,3}")', 'a short range is delivered');
create('multiranges', 'v nummultirange');
compare('a multirange of numbers that print long', q{INSERT INTO mallory.multiranges (v)
    SELECT range_agg(numrange((i || 'e131060')::numeric, (i || 'e131060')::numeric, '[]')) FROM generate_series(1, 3000) AS i});
is_deeply(next_row('multiranges')->{truncated}, ['v'], 'a multirange that prints too long is left out');

my @arrays = map { "n$_" } 1 .. 130;
create('arrays', join ', ', map { "$_ numeric[]" } @arrays);
compare('arrays of numbers that print long', 'INSERT INTO mallory.arrays (' . join(', ', @arrays) . ') SELECT ' . join ', ', ('array_fill(1e131071, ARRAY[200])') x @arrays);
is_deeply(next_row('arrays')->{truncated}, \@arrays, 'arrays that print too long are left out');

# Types that do not fit are denied until the table has fewer of them.
my $count = 50;
as_mallory(join ';', map { "CREATE TYPE mallory.wide$_ AS (" . join(', ', map { "c$_ int" } 1 .. 1600) . ')' } 1 .. $count);
create('wide', join ', ', map { "t$_ mallory.wide$_" } 1 .. $count);
compare('many wide types', 'INSERT INTO mallory.wide DEFAULT VALUES');
wait_until('a change of a table with too many types is denied for lack of memory', sub { denied('memory') == 1 });
as_mallory(q{INSERT INTO mallory.few (v.d7.c3) VALUES (6)});
is(next_row('few')->{after}{v}{d7}{c3}, 6, 'changes of other tables of the owner are delivered');
as_mallory(join ';', map { "ALTER TABLE mallory.wide DROP COLUMN t$_" } 11 .. $count);
as_mallory('INSERT INTO mallory.wide (t1.c1) VALUES (7)');
is(next_row('wide')->{after}{t1}{c1}, 7, 'with fewer types, changes of the table are delivered');
is(denied('memory'), 1, 'and no other change was denied');
done_testing();
