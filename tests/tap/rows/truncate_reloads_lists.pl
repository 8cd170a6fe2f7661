# Tests that a TRUNCATE, which live rules cannot send as row changes, causes clients with a list of the table to reload:
# on every relay, even after a restart, a store outage, and a reconnect.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true);
    SELECT clairon.watch('tasks', 'ALL', name => 'all', live => true);
    CREATE SCHEMA s;
    CREATE TABLE s.parts (owner text, id int, PRIMARY KEY (owner, id)) PARTITION BY LIST (owner);
    CREATE TABLE s.parts_of_u1 PARTITION OF s.parts FOR VALUES IN ('u1');
    CREATE TABLE s.parts_of_u2 PARTITION OF s.parts FOR VALUES IN ('u2');
    GRANT USAGE ON SCHEMA s TO PUBLIC;
    SELECT clairon.watch('s.parts', 'USER', 'owner', live => true)});
my $store  = Clairon::Test::store(fsync => 'everysec'); # commits are confirmed late
my $proxy  = Clairon::Test::proxy($store->{socket});
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'store.url' => $proxy->url('redis'), 'rows.conninfo' => $pg->connstr('postgres') . ' user=relay' });
my $next = 10;

sub execute { my ($sql) = @_; return $pg->safe_psql('postgres', $sql) }
sub fill { return execute(q{INSERT INTO tasks VALUES (1, 'u1'), (2, 'u2'), (3, 'u1')}) }

sub ids
{
    my ($client, %fields) = @_;
    my $r = ++$next;
    $client->send({ t => 'rows', r => $r, %fields });
    return join ',', map { $_->{id} } @{ $client->wait_for(sub { ($_[0]{r} // 0) == $r })->{rows} };
}

sub reloads { return map { "$_->{source}/$_->{rule}" } grep { $_->{t} eq 'reload' } @{ $_[0]{messages} } }

# Returns the reloads that each client has received since the last call.
my (%known, $mark);

sub new_reloads
{
    my ($client) = @_;
    my @all   = reloads($client);
    my $known = $known{$client} // 0;
    $known{$client} = @all;
    return join ' ', sort @all[ $known .. $#all ];
}

# Returns the new reloads of each client, including all reloads of transactions before this call.
sub reloads_of
{
    my (@clients) = @_;
    $mark++;
    execute("SELECT clairon.notify('USER', '{u1,u2}', '{\"mark\": $mark}')");
    for my $client (@clients)
    {
        $client->run_until("marker $mark arrives", sub { scalar(() = Clairon::Test::of_mark($client, $mark)) });
    }
    return [ map { new_reloads($_) } @clients ];
}

# Two users are connected to two relays, of which only the first relay reads the slot.
fill();
execute(q{INSERT INTO s.parts VALUES ('u1', 1), ('u2', 2)});
my ($one, $two, $none) = ($first->client('u1'), $second->client('u2'), $second->client('u1'));
my @all = ($one, $two, $none);
is(ids($one, source => 'tasks'), '1,3', 'a user on the first relay has a list');
is(ids($two, source => 'tasks'), '2', 'a user on the second relay has a list of the same rule');
is(ids($two, source => 'tasks', rule => 'all'), '1,2,3', 'a user on the second relay uses a live rule for ALL');
is(ids($_, source => 's.parts'), $_ == $one ? '1' : '2', 'both users have a list of a partitioned table') for $one, $two;
execute('TRUNCATE tasks');
is_deeply(reloads_of(@all), [ 'tasks/default', 'tasks/all tasks/default', '' ], 'a TRUNCATE sends reload to clients with a list of the table');
is(ids($one, source => 'tasks'), '', 'the next reply of the first relay is empty');
is(ids($two, source => 'tasks', rule => $_), '', "the next reply of the second relay is empty for rule $_") for qw(default all);
execute('TRUNCATE s.parts_of_u2');
is_deeply(reloads_of(@all), [ 's.parts/default', 's.parts/default', '' ], 'the TRUNCATE of a partition sends reload for the list of the partitioned table');
is(ids($two, source => 's.parts'), '', 'the next reply does not contain the rows of the partition');
execute('TRUNCATE s.parts, tasks');
is_deeply(reloads_of(@all), [ 's.parts/default tasks/default', 's.parts/default tasks/all tasks/default', '' ], 'the TRUNCATE of several tables sends one reload for each list');
execute('BEGIN; TRUNCATE s.parts, tasks; ROLLBACK');
is_deeply(reloads_of(@all), [ '', '', '' ], 'a rolled back TRUNCATE sends no reload');

# The transaction also contains notifications.
my $x = execute(q{BEGIN; INSERT INTO tasks VALUES (10, 'u1'), (11, 'u2'); TRUNCATE tasks; INSERT INTO tasks VALUES (12, 'u1'), (13, 'u2');
    SELECT pg_current_xact_id(); COMMIT});
is_deeply(reloads_of($one, $two), [ 'tasks/default', 'tasks/all tasks/default' ], 'a transaction with other changes sends reload');
for my $client ($store->shards == 1 ? ($one, $two) : ())    # the rows are in another shard
{
    my @frames = map { $_->{t} eq 'reload' ? 'reload' : $_->{n}{payload}{after}{id} }
      grep { ($_->{rule} // '') eq 'default' && ($_->{t} eq 'reload' ? $_->{source} eq 'tasks' : $_->{x} eq $x) } @{ $client->{messages} };
    is_deeply([ @frames[ -2, -1 ] ], [ 'reload', $client == $one ? 12 : 13 ], 'the reload arrives before the changes after the TRUNCATE');
}
is(ids($_, source => 'tasks'), $_ == $one ? '12' : '13', 'the next reply contains the row inserted after the TRUNCATE') for $one, $two;

# The second relay is temporarily disconnected from the store.
sub while_disconnected
{
    my ($what) = @_;
    $proxy->reject(1);
    $proxy->cut;
    wait_until('the second relay has lost its store connection', sub { ($second->get('/readyz'))[0] == 503 });
    $what->();
    $proxy->reject(0);
    wait_until('the second relay has reconnected to the store', sub { ($second->get('/readyz'))[0] == 200 });
    return;
}
while_disconnected(sub { reloads_of($one) });
is_deeply(reloads_of($two), [''], 'a store outage without a TRUNCATE sends no reload');
while_disconnected(sub {
    execute('TRUNCATE s.parts');
    is_deeply(reloads_of($one), ['s.parts/default'], 'the first relay sends reload');
});
is_deeply(reloads_of($two), ['s.parts/default'], 'after an outage, a connected client receives the reload');
while_disconnected(sub {
    execute('TRUNCATE tasks');
    is_deeply(reloads_of($one), ['tasks/default'], 'the first relay sends reload again');
    $store->execute('XTRIM', $store->shared('control'), 'MAXLEN', 0);
});
is_deeply(reloads_of($two), ['s.parts/default tasks/all tasks/default'], 'after an outage, all lists are reloaded if the reload was trimmed');

# The client was disconnected, or its relay was not running, during the TRUNCATE.
my $away = $first->client('u1');
is(ids($away, source => 'tasks'), '', 'another connection has an empty list');
fill();
$away->wait_row(3);
my $pos = $away->pos;
$away->close;
execute('TRUNCATE tasks');
reloads_of(@all);
for my $relay ($first, $second)
{
    my $back = $relay->client('u1', pos => $pos);
    is($back->{messages}[0]{resumed}, JSON::true, 'a client that was disconnected resumes');
    is(ids($back, source => 'tasks'), '', 'the next reply of a resumed client is empty');
}
$first->kill9;
fill();
execute('TRUNCATE tasks');
$first->start;
$first->wait_ready;
is_deeply(reloads_of($two), ['tasks/all tasks/default'], 'a TRUNCATE while no relay reads the slot sends reload to clients of other relays');
is(ids($two, source => 'tasks'), '', 'the next reply of clients of other relays is empty');
execute('TRUNCATE s.parts');
is_deeply(reloads_of($two), ['s.parts/default'], 'another TRUNCATE sends reload');
$first->kill9;
$first->start;
$first->wait_ready;
wait_until('PostgreSQL sends the TRUNCATE again', sub { ($first->metric('clairon_store_replayed_total') // 0) > 0 });
is_deeply(reloads_of($two), [''], 'a repeated TRUNCATE sends no second reload');

done_testing();
