# Tests that an SSE stream receives `reload` for the lists in its request, and for no other lists.
use strict;
use warnings;
use utf8;

use Clairon::Test;
use Clairon::Test::EventStream;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text);
    CREATE TABLE duties (id int PRIMARY KEY, grp text);
    CREATE TABLE "odd é" (id int PRIMARY KEY, owner text);
    CREATE TABLE hidden (id int PRIMARY KEY, owner text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    ALTER TABLE duties REPLICA IDENTITY FULL;
    ALTER TABLE "odd é" REPLICA IDENTITY FULL;
    ALTER TABLE hidden REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true), clairon.watch('hidden', 'USER', 'owner', live => true),
           clairon.watch('duties', 'STRUCTURE', 'grp', name => 'mine', live => true), clairon.watch('"odd é"', 'USER', 'owner', live => true)});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub stream
{
    my ($user, $query) = @_;
    my $stream = Clairon::Test::EventStream->open($relay, $user, ':path' => "/v1/sse$query");
    $stream->wait_message('connected') if $stream->{status} == 200;
    return $stream;
}

# Executes the statement; returns the reloads that each stream received before the following notification.
my $mark = 0;

sub reloads_of
{
    my ($sql, @streams) = @_;
    $mark++;
    $pg->safe_psql('postgres', "$sql; SELECT clairon.notify('USER', '{u1,u2}', '{\"mark\": $mark}')");
    my @found;
    for my $stream (@streams)
    {
        my @names;
        while (my $event = $stream->event)
        {
            push @names, "$event->{source}/$event->{rule}" if $event->{t} eq 'reload';
            last if $event->{t} eq 'msg' && $event->{n}{payload}{mark} == $mark;
        }
        push @found, join ' ', sort @names;
    }
    return \@found;
}

my @streams = (stream('u1', '?rows=tasks,duties/mine,odd%20%C3%A9'), stream('u2', '?topics=postgres.*&rows=tasks'), stream('u1', ''));
is_deeply(reloads_of('TRUNCATE tasks', @streams), [ 'tasks/default', 'tasks/default', '' ], 'a TRUNCATE sends reload to each stream with a list of the table');
is_deeply(reloads_of('TRUNCATE duties', @streams), [ 'duties/mine', '', '' ], 'a list can name a rule after a slash');
is_deeply(reloads_of('TRUNCATE "odd é"', @streams), [ 'odd é/default', '', '' ], 'percent-encoded names in the request are decoded');
is_deeply(reloads_of('TRUNCATE hidden', @streams), [ '', '', '' ],
    'rules without a list in the request send no reload');
is_deeply(reloads_of(q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1')}, @streams),
    [ 'duties/mine odd é/default tasks/default', '', '' ],
        'a membership change sends reload for all lists of the user');
my $resumed = Clairon::Test::EventStream->open($relay, 'u1', ':path' => '/v1/sse?rows=tasks', 'Last-Event-ID' => $streams[0]{id});
$resumed->wait_message('connected');
is_deeply(reloads_of('TRUNCATE tasks', $resumed), ['tasks/default'], 'a resumed stream also receives reloads');

my $many = join ',', map { "t$_" } 1 .. 32;
is(stream('u1', "?rows=$many")->{status}, 200, '32 lists are accepted');
for my $wrong ('', 'tasks,', '/mine', 'tasks/', "$many,t33", '%FF', 't' x 256, 'x' x 5000)
{
    my $stream = stream('u1', "?rows=$wrong");
    is($stream->{status}, 400, 'a request is rejected: rows=' . substr $wrong, 0, 12);
}

done_testing();
