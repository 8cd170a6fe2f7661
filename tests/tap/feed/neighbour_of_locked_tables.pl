# Tests that the locks of a table owner's open transactions delay neither the feed, nor views, checks and live lists, nor
# commands of other owners.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Neighbour;
use Test::More;

my $LISTS = 5;    # more than the connections that read rows

my $pg        = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '30s'});
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
my $client    = $relay->client('mallory');

sub as_mallory { return $neighbour->run_as('mallory', $_[0]) }

# Returns the output of the statements, or the error if they wait for a lock.
sub without_waiting
{
    my ($role, $sql) = @_;
    my (undef, $out, $err) = $pg->psql('postgres', "SET ROLE $role; SET lock_timeout = '100ms'; SET client_min_messages = error; $sql");
    return $out . $err;
}

# Requests a list.
my $request = 0;
sub request { my ($of, $source) = @_; $of->send({ t => 'rows', r => ++$request, source => $source }); return $request }
sub replies { my ($of) = @_; return grep { $_->{t} ne 'msg' && ($_->{r} // 0) > 0 } @{ $of->{messages} } }
sub is_delivered { my ($id, $what) = @_; return is($client->wait_row($id)->{n}{payload}{after}{id}, $id, $what) }

# Tables with rules that use row types in values, conditions and targets, and tables with live rules.
as_mallory(q{
    SET client_min_messages = error;
    CREATE TABLE mallory.inner_part (n int);
    CREATE TABLE mallory.part (id int, "the inner" mallory.inner_part);
    CREATE TYPE mallory.parts AS RANGE (subtype = mallory.part);
    CREATE TABLE mallory.t (id int, "the user" text, dropped int, tags text[], p mallory.part, ps mallory.part[]);
    ALTER TABLE mallory.t DROP dropped;
    CREATE TABLE mallory.r (id int, u text, r mallory.parts);
    SELECT clairon.watch('mallory.r', 'USER', 'u');
    SELECT clairon.watch('mallory.r', 'USER', 'r', name => 'to a range', columns => '{id}');
    SELECT clairon.watch('mallory.t', 'USER', 'the user', columns => '{id,p,ps}',
        only_when => $$"the user" <> 'a' AND tags[1] IS DISTINCT FROM 'b' AND ((p)."the inner").n > 0 AND p = ps[1] AND (p).id = id$$);
    SELECT clairon.watch('mallory.t', 'A+B', 'the user+tags', name => 'composite')});
as_mallory("CREATE TABLE mallory.list$_ (id int PRIMARY KEY, u text); ALTER TABLE mallory.list$_ REPLICA IDENTITY FULL;
    CREATE INDEX ON mallory.list$_ (u); SELECT clairon.watch('mallory.list$_', 'USER', 'u', live => true);
    INSERT INTO mallory.list$_ VALUES (1, 'mallory')") for 1 .. $LISTS;
$neighbour->run_as('alice', q{
    CREATE TABLE alice.list (id int PRIMARY KEY, u text); ALTER TABLE alice.list REPLICA IDENTITY FULL;
    SELECT clairon.watch('alice.list', 'USER', 'u', live => true); INSERT INTO alice.list VALUES (1, 'alice')});
my $lists = join ', ', map { "mallory.list$_" } 1 .. $LISTS;
my $row   = q{ROW(%1$s, ROW(1))::mallory.part};
my $value = "INSERT INTO mallory.t VALUES (%1\$s, 'mallory', '{x}', $row, ARRAY[$row]); INSERT INTO mallory.r VALUES (-%1\$s, 'mallory', mallory.parts($row, NULL))";

my @reads = (
    [ 'clairon.rules',    'SELECT * FROM clairon.rules ORDER BY 1, 2' ],
    [ 'clairon.status',   'SELECT slot_name, active, database, wal_status FROM clairon.status' ],
    [ 'clairon.doctor()', q{SELECT * FROM clairon.doctor() WHERE check_name !~ '^(slot|physical|account)' ORDER BY 1, 3} ],
);
my @before = map { without_waiting('relay', $_->[1]) } @reads;
like($before[0], qr/\Q("the user" <> 'a'::text) AND (tags[1] IS DISTINCT FROM 'b'::text) AND ((p)."the inner".n > 0) AND (p = ps[1])/,
    'a condition is shown with the names of its columns');
unlike($before[0], qr/denies/, 'and is valid');

# A session that has loaded the row types writes without a lock on their tables.
my $writer = $pg->background_psql('postgres');
$writer->query_safe(sprintf "SET ROLE mallory; BEGIN; $value; ROLLBACK", 1);
my $holder = $pg->background_psql('postgres');
$holder->query_safe('SET ROLE mallory');
sub lock_row_types { return $holder->query_safe('BEGIN; LOCK mallory.part, mallory.inner_part IN ACCESS EXCLUSIVE MODE') }
lock_row_types();
$writer->query_safe(sprintf $value, 1);
$neighbour->delay_of_row;
pass('rows of a neighbour are delivered while the tables of row types are locked');
is_delivered(1,  'and rows with these types are delivered');
is_delivered(-1, 'and rows with ranges of them');
# The row types are loaded again after their tables have changed.
$writer->query_safe(sprintf "BEGIN; $value", 2);
$holder->query_safe('ROLLBACK');    # PostgreSQL 18 locks the tables of a GRANT
as_mallory('GRANT SELECT ON mallory.part, mallory.inner_part TO PUBLIC');
lock_row_types();
$writer->query_safe('COMMIT');
$neighbour->delay_of_row;
is_delivered(2,  'so they are after a change of those tables');
is_delivered(-2, 'with ranges too');

# Everything else of the owner is locked too.
$holder->query_safe("LOCK mallory.t, $lists IN ACCESS EXCLUSIVE MODE; SELECT clairon.unwatch('mallory.t', 'composite')");
for my $i (0 .. $#reads) { is(without_waiting('relay', $reads[$i][1]), $before[$i], "$reads[$i][0] does not wait") }
my @commands = (
    [ 'watch',   q{SELECT clairon.watch('alice.orders', 'USER', 'owner', name => 'new', only_when => 'id > 0')} ],
    [ 'unwatch', q{SELECT clairon.unwatch('alice.orders', 'new')} ],
    [ 'ALTER TABLE', 'ALTER TABLE alice.list ADD COLUMN added int' ],
    [ 'DROP COLUMN', 'ALTER TABLE alice.list DROP COLUMN added' ],
    [ 'CREATE TABLE', 'CREATE TABLE alice.new (id int)' ],
    [ 'DROP TABLE',  'DROP TABLE alice.new' ],
    [ 'clairon.rules', q{SELECT FROM clairon.rules} ],
);
unlike(without_waiting('alice', $_->[1]), qr/ERROR/, "$_->[0] of another owner does not wait") for @commands;
unlike(without_waiting('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't', 'u'); DELETE FROM clairon.member;
    SELECT clairon.notify('USER', '{bob}', '{}'), clairon.once('e', 'k')}), qr/ERROR/, 'members, notify and once do not wait');

# Lists of the locked tables are read later; they occupy no connection.
request($client, "mallory.list$_") for 1 .. $LISTS;
wait_until('the lists of locked tables were requested', sub { $relay->metric('clairon_rows_repeated_total') >= $LISTS });
my $alice = $relay->client('alice');
request($alice, 'alice.list');
is_deeply($alice->wait_for('rows')->{rows}, [ { id => 1, u => 'alice' } ], 'a list of another owner is read meanwhile');
is(scalar(replies($client)), 1, 'while the lists of locked tables wait');
my (undef, $out) = $relay->run('doctor', '--json');
like($out, qr/"check":"rules","detail":"\d+ rules"/, 'clairon doctor reads the rules');
unlike($out, qr/lock timeout|denies/, 'and does not wait');
$holder->query_safe('ROLLBACK');
$client->run_until('the lists are delivered', sub { (grep { $_->{t} eq 'rows' } @{ $client->{messages} }) == $LISTS });
is((grep { $_->{t} eq 'err' } @{ $client->{messages} }), 0, 'without an error');
$neighbour->delay_of_row;
is($pg->safe_psql('postgres', q{SELECT denied FROM clairon.status, jsonb_array_elements(denied) AS d WHERE d->>'account' <> 'rows'}), '',
    'only the rows were denied whose target is a range of a row type');
done_testing();
