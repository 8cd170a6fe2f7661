# Tests that the rows of group rules and of literal targets are selected by the memberships of the user who receives them,
# as of the snapshot of the rows: also while requests wait for the same connection, and the relay has not yet read a
# membership change that the snapshot contains.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE slow (id int PRIMARY KEY);
    CREATE TABLE tasks (id int PRIMARY KEY, grp text, role text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    SELECT clairon.watch('slow', 'ALL', live => true);
    SELECT clairon.watch('tasks', 'STRUCTURE', 'grp', live => true);
    SELECT clairon.watch('tasks', 'STRUCTURE+ROLE', 'grp+role', name => 'both', live => true);
    SELECT clairon.watch('tasks', 'USER', '=a,b', name => 'literal', live => true);
    SELECT clairon.watch('tasks', 'STRUCTURE', '=g', name => 'group', live => true);
    SELECT clairon.watch('tasks', 'ALL', name => 'all', live => true);
    INSERT INTO tasks VALUES (1, 'g', 'r');
    INSERT INTO clairon.member VALUES ('STRUCTURE', 'g', 'a'), ('STRUCTURE', 'g', 'b'), ('STRUCTURE', 'other', 'c'),
        ('ROLE', 'r', 'a'), ('ROLE', 'r', 'b'), ('ROLE', 'r', 'c')});
my $relay = Clairon::Test::relay($pg, Clairon::Test::store(), conf => { 'rows.connections' => 1, 'rows.timeout' => '60s' });
# A query waits for a lock for 10 ms only. Here it waits, so that a locked table keeps the connection busy.
$pg->safe_psql('postgres', q{ALTER FUNCTION clairon.live_rows SET lock_timeout = 0});
my %clients = map { $_ => $relay->client($_) } qw(busy a b c);
my $next    = 10;

sub request { my ($user, %fields) = @_; $clients{$user}->send({ t => 'rows', r => ++$next, source => 'tasks', %fields }); return $next }
sub reply { my ($user, $r) = @_; return $clients{$user}->wait_for(sub { ($_[0]{r} // 0) == $r }) }

# Returns the ids of the rows, or the code of the error.
sub ids
{
    my ($user, $r) = @_;
    my $reply = reply($user, $r);
    return $reply->{rows} ? join ',', map { $_->{id} } @{ $reply->{rows} } : "error $reply->{code}";
}

# Returns the rows of each user, whose requests wait together for the only connection.
sub rows_of
{
    my ($rule, @users) = @_;
    my $lock = $pg->background_psql('postgres');
    $lock->query_safe('BEGIN; LOCK slow');
    my $first = request('busy', source => 'slow');
    wait_until('the connection is busy', sub { 1 == $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE NOT granted}) });
    my %requests;
    for my $user (@users)
    {
        $requests{$user} = request($user, rule => $rule);
        wait_until('the request waits', sub { $relay->metric('clairon_rows_waiting_requests') == keys %requests });
    }
    $lock->query_safe('COMMIT');
    $lock->quit;
    reply('busy', $first);
    return { map { $_ => ids($_, $requests{$_}) } @users };
}

my @RULES = qw(default both literal group all);
my %empty = (default => '', both => '', literal => 'error 103', group => 'error 103', all => '1');
for my $rule (@RULES)
{
    ids('busy', request('busy', rule => $rule));    # the relay has now cached the audience of the rule
    is_deeply(rows_of($rule, qw(a b c)), { a => 1, b => 1, c => $empty{$rule} }, "$rule: users receive the rows that are addressed to them");
}
my $before = $relay->metric('clairon_rows_query_seconds_count');
rows_of('all', qw(a b c));
is($relay->metric('clairon_rows_query_seconds_count') - $before, 2, 'users share the query of a rule for ALL');

# The snapshots contain these changes before the relay reads them from the WAL.
my $walsender = $pg->safe_psql('postgres', q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'clairon'});
kill 'STOP', $walsender;
$pg->safe_psql('postgres', q{
    BEGIN;
    DELETE FROM clairon.member WHERE audience = 'STRUCTURE' AND user_id = 'b';
    UPDATE clairon.member SET target = 'g' WHERE audience = 'STRUCTURE' AND user_id = 'c';
    INSERT INTO tasks VALUES (2, 'g', 'r');
    SELECT clairon.watch('tasks', 'USER', '=a,c', name => 'literal', live => true);
    COMMIT});
for my $rule (qw(default both literal group))
{
    my $expected = { a => '1,2', b => $empty{$rule}, c => '1,2' };
    is_deeply(rows_of($rule, qw(a b c)), $expected, "$rule: rows follow the memberships in their snapshot");
    is_deeply(rows_of($rule, qw(b a c)), $expected, "$rule: rows follow the memberships in their snapshot, in another order of requests");
}
for my $order ([qw(a b c)], [qw(b a c)])
{
    $pg->safe_psql('postgres', q{SELECT clairon.watch('tasks', 'ALL', name => 'all', live => true)});
    is(ids('busy', request('busy', rule => 'all')), '1,2', 'a rule for ALL, whose audience the relay has now cached');
    $pg->safe_psql('postgres', q{SELECT clairon.watch('tasks', 'USER', '=b', name => 'all', live => true)});
    is_deeply(rows_of('all', @$order), { a => 'error 103', b => '1,2', c => 'error 103' },
        "rows of a rule that was for ALL are not shared once it is for a user, that is number @{[ $order->[0] eq 'b' ? 1 : 2 ]} in the query");
}
kill 'CONT', $walsender;

done_testing();
