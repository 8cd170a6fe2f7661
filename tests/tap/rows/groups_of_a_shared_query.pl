# Tests that a query shared by users with the same groups does not disclose rows of a group that only one of these users
# has joined.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, grp text, role text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'STRUCTURE', 'grp', live => true);
    SELECT clairon.watch('tasks', 'STRUCTURE+ROLE', 'grp+role', name => 'both', live => true);
    INSERT INTO tasks VALUES (1, 's1', 'r1'), (2, 's2', 'r1'), (3, 's3', 'r1'), (4, 's1', 'r2');
    INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1'), ('STRUCTURE', 's1', 'u2'), ('ROLE', 'r1', 'u2')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '60s' });
my $next  = 10;

sub request { my ($client, %fields) = @_; $client->send({ t => 'rows', r => ++$next, source => 'tasks', %fields }); return $next }
sub ids { my ($client, $r) = @_; return join ',', map { $_->{id} } @{ $client->wait_for(sub { ($_[0]{r} // 0) == $r })->{rows} } }

sub queries { return $relay->metric('clairon_rows_query_seconds_count') }

# The users have the same groups, by row, by token, and by both. The first user's query delays queries for the same
# groups.
my %clients = (
    busy => $relay->client('busy', groups => { STRUCTURE => ['s1'], ROLE => ['r1'] }),
    u1   => $relay->client('u1', groups => { ROLE => ['r1'] }),
    u2   => $relay->client('u2', groups => { STRUCTURE => ['s1'] }));
is(ids($clients{busy}, request($clients{busy})), '1,4', 'the relay has cached the audience of a rule');
is(ids($clients{busy}, request($clients{busy}, rule => 'both')), '1', 'the relay has cached the audience of a composite rule');

# Returns the rows for the requests of `users`, which wait for the same query in this order, while `sql` commits.
sub ids_of
{
    my ($rule, $sql, @users) = @_;
    my $lock = $pg->background_psql('postgres');
    $lock->query_safe('BEGIN; LOCK tasks');
    my $first = request($clients{busy}, rule => $rule);
    wait_until('a query waits for the lock', sub { 1 == $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE NOT granted}) });
    my %requests;
    for my $user (@users)
    {
        $requests{$user} = request($clients{$user}, rule => $rule);
        wait_until('the request waits', sub { $relay->metric('clairon_rows_waiting_requests') == keys %requests });
    }
    $pg->safe_psql('postgres', $sql);
    $lock->query_safe('COMMIT');
    $lock->quit;
    ids($clients{busy}, $first);
    return map { ids($clients{$_}, $requests{$_}) } @users;
}

for my $rule (qw(default both))
{
    my $rows   = $rule eq 'both' ? '1' : '1,4';
    my $before = queries();
    is_deeply([ ids_of($rule, 'SELECT', 'u1', 'u2') ], [ $rows, $rows ], "$rule: users with the same groups receive the same rows");
    is(queries() - $before, 2, "$rule: users with the same groups share a query");
}

# The query reads the new membership from the table before the relay reads it from the WAL.
my $walsender = $pg->safe_psql('postgres', q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'clairon'});
kill 'STOP', $walsender;
is_deeply([ ids_of('default', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's2', 'u1')}, 'u1', 'u2') ],
    [ '1,2,4', '1,4' ], 'rows of a group that a user joins are sent only to that user');
is_deeply([ ids_of('both', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's3', 'u1')}, 'u1', 'u2') ],
    [ '1,2,3', '1' ], 'rows of a composite audience that a user joins are sent only to that user');
kill 'CONT', $walsender;

done_testing();
