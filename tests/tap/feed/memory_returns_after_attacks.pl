# Tests that walsender, relay and store return the memory that the rules of a table owner have used, within a minute after
# the rules are removed: compared with the memory after honest work of another owner in the same processes.
use strict;
use warnings;

use Clairon::Test qw(is_sanitized script_text);
use Clairon::Test::Neighbour;
use Clairon::Test::RawSocket;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'a sanitizer keeps freed memory' if is_sanitized();

my ($CLIENTS, $SLOW, $MEMBERS) = (20, 20, 10_000);
# What may remain, in MB: between small blocks the allocator keeps free memory, and the relay keeps the newest
# notifications, up to 16 MB of them (docs/ARCHITECTURE.md).
my %SLACK = (walsender => 32, relay => 32, store => 8);

my $pg        = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store, conf => { 'store.retention' => '1m', 'gate.slow_age' => '20s', 'gate.slow_bytes' => '100MB' });
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub as_mallory { return $neighbour->run_as('mallory', $_[0]) }
sub store_memory { return ($store->execute('INFO', 'memory') =~ /^used_memory:(\d+)/m)[0] / 1e6 }
sub memory { return (walsender => $neighbour->walsender_memory, relay => $neighbour->relay_memory, store => store_memory()) }
sub show { my (%memory) = @_; return join ', ', map { sprintf '%s %.1f MB', $_, $memory{$_} } sort keys %memory }

# Memberships, and connections that remain, some of which read nothing until they are closed.
sql("INSERT INTO clairon.member SELECT 'TEAM', 'all', 'm' || i FROM generate_series(1, $MEMBERS) AS i");
sql(q{INSERT INTO clairon.member SELECT 'TEAM', 'here', 'm' || i FROM generate_series(1, 40) AS i});
my @clients = map { $relay->client("m$_") } 1 .. $CLIENTS;
my @slow    = map { Clairon::Test::RawSocket->user($relay, "m$_") } $CLIENTS + 1 .. $CLIENTS + $SLOW;

# Runs the statements as mallory while rows of alice are timed.
my %grown;
sub attack
{
    my ($what, $sql) = @_;
    my %before = memory();
    $neighbour->worst_delay($what, $sql);
    my %after = memory();
    note("$what: " . show(%after));
    $grown{$_} += $after{$_} > $before{$_} ? $after{$_} - $before{$_} : 0 for keys %after;
    return;
}

# Documents of 1 MB, many rows, and acknowledgements, as an application has them.
sub honest
{
    as_mallory(q{CREATE TABLE mallory.plain (id serial, u text, s text); SELECT clairon.watch('mallory.plain', 'USER', 'u', ack_required => true, ttl => '2 s')});
    $neighbour->worst_delay('documents', q{INSERT INTO mallory.plain (u, s) SELECT 'u', repeat('s', 1048000) FROM generate_series(1, 20)});
    $neighbour->worst_delay('rows', q{INSERT INTO mallory.plain (u, s) SELECT 'u', repeat('s', 500) FROM generate_series(1, 20000)});
    as_mallory('DROP TABLE mallory.plain');
    return;
}

# Waits until the condition is true, while alice's row is delivered each second.
sub wait_beside_alice
{
    my ($what, $seconds, $condition) = @_;
    my $end = time() + $seconds;
    until ($condition->())
    {
        return 0 if time() > $end;
        $neighbour->delay_of_row;
        Clairon::Test::Client::run_for(0.5);
    }
    return 1;
}

# True when the store has only what is newer than its retention.
sub is_trimmed
{
    # A relay trims once a minute.
    $store->execute_bytes('EVAL', script_text('trim'), 1, $_, s/:stream$//r, 5000) for $store->keys('stream');
    return !$store->pending && $store->entries <= 1000;
}

# Also empties the error log, as an operator does.
sub wait_trimmed
{
    ok(wait_beside_alice('the store is trimmed', 180, \&is_trimmed), 'notifications end, and older ones are trimmed');
    $relay->run('errors', 'drop', '--all');
    return;
}

honest();
wait_trimmed();
my %before = memory();
note('after honest work: ' . show(%before));

as_mallory('CREATE TABLE mallory.large (id serial, team text, ' . join(', ', map { "c$_ text" } 1 .. 15) . q{);
    ALTER TABLE mallory.large REPLICA IDENTITY FULL; SELECT clairon.watch('mallory.large', 'TEAM', 'team')});
attack('large rows to slow connections', q{INSERT INTO mallory.large (team) VALUES ('here');} .
    ('UPDATE mallory.large SET ' . join(', ', map { "c$_ = repeat(md5(random()::text), 15000)" } 1 .. 8) . ';') x 4);
as_mallory(q{CREATE TABLE mallory.many (id serial, targets text[]);
    SELECT clairon.watch('mallory.many', 'USER', 'targets', ack_required => true, ttl => '5 s')});
attack('10 000 targets', q{INSERT INTO mallory.many (targets) SELECT array_agg('u' || i) FROM generate_series(1, 10000) AS i, generate_series(1, 8) AS j GROUP BY j});
as_mallory(q{CREATE TABLE mallory.team (id serial, team text);
    SELECT clairon.watch('mallory.team', 'TEAM', 'team', ack_required => true, ttl => '5 s')});
attack("a group of $MEMBERS", q{INSERT INTO mallory.team (team) SELECT 'all' FROM generate_series(1, 8)});
as_mallory(q{CREATE TABLE mallory.retried (id serial, team text, s text);
    SELECT clairon.watch('mallory.retried', 'TEAM', 'team', ack_required => true, ack_timeout => '1 s', backoff => 'FIXED', ttl => '10 s', retry_limit => 100)});
attack('retries', q{INSERT INTO mallory.retried (team, s) SELECT 'here', repeat('x', 100000) FROM generate_series(1, 10)});
my $numbers = join ', ', map { "n$_" } 1 .. 40;
as_mallory('CREATE TABLE mallory.num (id serial, u text, ' . join(', ', map { "n$_ numeric" } 1 .. 40) . q{); SELECT clairon.watch('mallory.num', 'USER', 'u')});
attack('numbers that print long', "INSERT INTO mallory.num (u, $numbers) SELECT 'u', " . join(', ', ('1e131071') x 40) . ' FROM generate_series(1, 20)');
as_mallory('CREATE TABLE mallory.wide (id int, u text, ' . join(', ', map { "c$_ int" } 1 .. 1000) . ') PARTITION BY LIST (id)');
as_mallory(join ';', map { "CREATE TABLE mallory.wide$_ PARTITION OF mallory.wide FOR VALUES IN ($_)" } 1 .. 50);
as_mallory(q{SELECT clairon.watch('mallory.wide', 'USER', 'u', name => 'r' || i, only_when => 'id < 0 AND c' || i || ' > 5') FROM generate_series(1, 100) AS i});
attack('rules, columns and partitions', join ';', 'INSERT INTO mallory.wide (id) SELECT generate_series(1, 50)',
    map { "GRANT SELECT ON mallory.wide$_ TO alice; INSERT INTO mallory.wide (id) SELECT generate_series(1, 50)" } 1 .. 5);
as_mallory('CREATE TYPE mallory.inner_type AS (' . join(', ', map { "c$_ int" } 1 .. 1600) . ')');
as_mallory('CREATE TYPE mallory.outer_type AS (' . join(', ', map { "d$_ mallory.inner_type" } 1 .. 1500) . ')');
as_mallory(join ';', map { "CREATE TABLE mallory.nested$_ (id serial, u text DEFAULT 'm1', v mallory.outer_type); SELECT clairon.watch('mallory.nested$_', 'USER', 'u')" } 1 .. 3);
my $value = "('(' || substr(repeat(',\"(" . (',' x 1599) . ")\"', 1500), 2) || ')')::mallory.outer_type";
attack('nested values', join ';', map { "INSERT INTO mallory.nested$_ (v) SELECT $value" } 1 .. 3);
as_mallory(q{CREATE TABLE mallory.live (id serial PRIMARY KEY, team text, s text); ALTER TABLE mallory.live REPLICA IDENTITY FULL;
    SELECT clairon.watch('mallory.live', 'TEAM', 'team', name => 'r' || i, live => true) FROM generate_series(1, 100) AS i;
    INSERT INTO mallory.live (team, s) SELECT 'here', repeat('x', 10000) FROM generate_series(1, 300)});
$_->send({ t => 'rows', r => 1, source => 'mallory.live', rule => 'r1' }) for @clients;
$_->send_json({ t => 'rows', r => 1, source => 'mallory.live', rule => 'r1' }) for @slow;
attack('reloads of live lists', 'TRUNCATE mallory.live;' x 50);

note('memory that grew in attacks: ' . show(%grown));
note('denied: ' . sql('SELECT denied FROM clairon.status'));
as_mallory(q{SELECT clairon.unwatch('mallory.large'); DROP TABLE mallory.large, mallory.many, mallory.team, mallory.retried, mallory.num, mallory.wide,
    mallory.nested1, mallory.nested2, mallory.nested3, mallory.live; DROP TYPE mallory.outer_type, mallory.inner_type});
sql(q{DELETE FROM clairon.member});
$_->disconnect for @slow;
$_->close for @clients;
wait_trimmed();
my %after;
my $returned = wait_beside_alice('memory returns', 60, sub { %after = memory(); !grep { $after{$_} > $before{$_} + $SLACK{$_} } keys %SLACK });
note('afterwards: ' . show(%after));
cmp_ok($after{$_}, '<', $before{$_} + $SLACK{$_}, "the memory of the $_ returns") for sort keys %SLACK;
done_testing();
