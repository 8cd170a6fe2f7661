# Tests the rows of live rules from the table to the client: rows and notifications together always equal the table.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text, title text, done boolean DEFAULT false);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    CREATE TABLE "Ödd ""name" (id int PRIMARY KEY, grp text);
    ALTER TABLE "Ödd ""name" REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true);
    SELECT clairon.watch('tasks', 'ALL', name => 'open', only_when => 'NOT done', columns => '{id,title}', live => true);
    SELECT clairon.watch('"Ödd ""name"', 'STRUCTURE', 'grp', live => true);
    SELECT clairon.watch('tasks', 'USER', 'owner', name => 'plain');
    INSERT INTO tasks SELECT i, 'u' || i % 3, 'task ' || i, i % 2 = 0 FROM generate_series(1, 30) i;
    INSERT INTO "Ödd ""name" SELECT i, 's' || i % 2 FROM generate_series(1, 4) i});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $next  = 10;

sub request { my ($client, %fields) = @_; $client->send({ t => 'rows', r => ++$next, %fields }); return $next }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub rows { my ($client, %fields) = @_; return reply($client, request($client, %fields)) }
sub table { my ($sql) = @_; return join ',', split /\n/, $pg->safe_psql('postgres', $sql) }
sub ids { return join ',', map { $_->{id} } @_ }

my $client = $relay->client('u1', groups => { STRUCTURE => ['s1'] });
my $result = rows($client, source => 'tasks');
is(ids(@{ $result->{rows} }), table(q{SELECT id FROM tasks WHERE owner = 'u1' ORDER BY id}), 'a user receives the user\'s rows');
is_deeply($result->{rows}[0], { id => 1, owner => 'u1', title => 'task 1', done => JSON::false }, 'a row contains all columns');
is_deeply($result->{key}, ['id'], 'the reply contains the key');
$result = rows($client, source => 'tasks', rule => 'open');
is(ids(@{ $result->{rows} }), table('SELECT id FROM tasks WHERE NOT done ORDER BY id'), 'a condition selects rows');
is_deeply($result->{rows}[0], { id => 1, title => 'task 1' }, 'a rule with a column list returns only these columns');
my $grp = rows($client, source => "\x{d6}dd \"name");
is(ids(@{ $grp->{rows} }), '1,3', 'a group of the token selects rows, for a source with any name');
is(rows($client, source => $_->[0], rule => $_->[1])->{code}, 103, "\"$_->[1]\" of $_->[0] is denied")
  for [ 'tasks', 'plain' ], [ 'tasks', 'missing' ], [ 'pg_class', 'default' ];
my ($status, $body) = $relay->get('/v1/rows?source=tasks&rule=default', Authorization => 'Bearer ' . token(sub => 'u2'));
is($status, 200, 'GET /v1/rows returns the rows');
is(ids(@{ JSON::decode_json($body)->{rows} }), table(q{SELECT id FROM tasks WHERE owner = 'u2' ORDER BY id}), 'each user receives only rows for that user');

# Users and groups are determined only by the token, not by fields or parameters.
sub rows_over_http
{
    my ($query, %claims) = @_;
    my ($code, $text) = $relay->get("/v1/rows?$query", Authorization => 'Bearer ' . token(sub => 'u9', %claims));
    my $reply = JSON::decode_json($text);
    return join ' ', $code, $reply->{code} // ids(@{ $reply->{rows} });
}
$pg->safe_psql('postgres', q{SELECT clairon.watch('tasks', 'STRUCTURE', '=s1', name => 'of_s1', live => true)});
is(rows_over_http("source=$_"), '403 103', "$_ is denied over HTTP") for 'tasks&rule=plain', 'tasks&rule=missing', 'pg_class', 'public.tasks', 'clairon.member', 'tasks&rule=of_s1';
is(rows_over_http("source=tasks$_"), '200 ', "source=tasks$_ returns no row of another user") for '', '&user=u1', '&user_id=u1', '&sub=u1', '&rule=default&user=u1';
is(rows_over_http('source=' . '%C3%96dd%20%22name&groups={"STRUCTURE":["s1"]}'), '200 ',
    'groups in a query select no rows');
is(rows_over_http('source=tasks&rule=of_s1', groups => { STRUCTURE => ['s2'], ROLE => ['s1'] }), '403 103',
    'other groups of the token select no rows');
is((rows_over_http('source=tasks', groups => { $_ => ['u1'] }) =~ /^(\d+)/)[0], 401, "a token with groups of $_ is rejected") for qw(USER ALL);
my $guesser = $relay->client('u9', groups => { STRUCTURE => ['s2'] });
is(rows($guesser, source => 'tasks', %$_)->{code}, 107, 'a field ' . (keys %$_)[0] . ' is rejected') for { user => 'u1' }, { user_id => 'u1' }, { groups => { STRUCTURE => ['s1'] } };
is_deeply(rows($guesser, source => $_)->{rows}, [], "a request over WebSocket returns no rows of $_") for 'tasks', "\x{d6}dd \"name";
is(rows($guesser, source => $_->[0], rule => $_->[1])->{code}, 103, "\"$_->[1]\" of $_->[0] is denied to other groups") for [ 'tasks', 'of_s1' ], [ 'public.tasks', 'default' ], [ 'clairon.member', 'default' ];

# A client that follows the protocol: it requests rows, and applies the changes that the rows do not contain.
sub contains
{
    my ($snapshot, $x) = @_;
    my ($xmin, $xmax, $running) = split /:/, $snapshot;
    return $x < $xmin || ($x < $xmax && !grep { $_ == $x } split /,/, $running // '');
}

sub list
{
    my ($from, $result) = @_;
    my %rows = map { $_->{id} => $_ } @{ $result->{rows} };
    for my $change (grep { $_->{t} eq 'msg' && ($_->{rule} // '') eq 'default' && $_->{n}{metadata}{source} eq 'tasks' } @{ $from->{messages} })
    {
        next if contains($result->{snapshot}, $change->{x});
        my ($before, $after) = @{ $change->{n}{payload} }{qw(before after)};
        delete $rows{ $before->{id} } if $before;
        $rows{ $after->{id} } = $after if $after && $after->{id};    # wait_row() turns null into {}
    }
    return join ',', map { "$_ $rows{$_}{title}" } sort { $a <=> $b } keys %rows;
}

my $script = Clairon::Test::scratch() . '/writes.sql';
open my $file, '>', $script or die $!;
for my $round (1 .. 300)
{
    my $id = 1 + $round % 40;
    print {$file} $round % 3 == 0
      ? "DELETE FROM tasks WHERE id = $id;\n"
      : "INSERT INTO tasks VALUES ($id, 'u@{[ $round % 4 ]}', 'round $round') ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, title = excluded.title;\n";
}
close $file;
my $writer = Clairon::Test::writer($pg, $script);
my @results = map { rows($client, source => 'tasks') } 1 .. 20;
$writer->finish;
$pg->safe_psql('postgres', q{INSERT INTO tasks VALUES (1000, 'u1', 'last') });
$client->wait_row(1000);
my $expected = table(q{SELECT id || ' ' || title FROM tasks WHERE owner = 'u1' ORDER BY id});
is(list($client, $results[$_]), $expected, "reply $_ and the changes after it equal the table") for 0, 7, 13, 19;

# A membership change sends reload.
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's0', 'u1')});
is_deeply($client->wait_for('reload'), { t => 'reload', source => "\x{d6}dd \"name", rule => 'default' }, 'a new membership sends reload');
is(ids(@{ rows($client, source => "\x{d6}dd \"name")->{rows} }), '1,2,3,4', 'the next reply contains the rows of the new group');
$pg->safe_psql('postgres', q{SELECT clairon.watch('tasks', 'STRUCTURE', '=s7', name => 'literal', live => true)});
my $outsider = $relay->client('u9');
is(rows($outsider, source => 'tasks', rule => 'literal')->{code}, 103, 'a user outside a literal group is denied');
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's7', 'u9')});
is_deeply($outsider->wait_for('reload'), { t => 'reload', source => 'tasks', rule => 'literal' }, 'the new membership sends reload to the denied user');
is(ids(@{ rows($outsider, source => 'tasks', rule => 'literal')->{rows} }), table('SELECT id FROM tasks ORDER BY id'), 'the next reply contains the rows of the group');

done_testing();
