"""Where the comments of a program go when it is formatted."""

from __future__ import annotations

from tests.grammar.formatted import becomes


def test_comments_keep_their_places() -> None:
    becomes(
        """
        /* leading
             of two lines */ let a=1;// trailing
        // own line
        session{// opening
            // first
            turn; /* inline */ end;
            // last
            }// closing
        // at the end""",
        """
        /* leading
             of two lines */ let a = 1;  // trailing
        // own line
        session {  // opening
          // first
          turn;
          /* inline */ end;
          // last
        }  // closing
        // at the end
        """,
    )


def test_comments_inside_an_expression() -> None:
    becomes(
        """
        let x = /* one */ 1 + // after one
          // before two
          f(a, // the first
            b // the second
          ); // after all
        let y = ( /* in */ 2 /* out */ ) // before the end
          ;
        """,
        """
        let x =
          /* one */ 1  // after one
          // before two
          + f(
            a,  // the first
            b   // the second
          );  // after all
        let y = (/* in */ 2 /* out */);  // before the end
        """,
    )


def test_comments_before_braces_and_else() -> None:
    becomes(
        """
        session // why
        { branch (x) // when
          { end; } // then
          // else
          else { end; }
        }
        """,
        """
        session {  // why
          branch (x) {  // when
            end;
          }  // then
          // else
          else {
            end;
          }
        }
        """,
    )


def test_comments_at_line_ends_stand_in_columns() -> None:
    becomes(
        """
        let a=1; // aligned
        let long = 2;   // aligned
                        // and going on
        stage gpu : step {  // another column
          cost 0.5     // written under
            + 2*tokens // one another
            ;
          // a line of its own
          budget 4; // alone
        }
        """,
        """
        let a = 1;     // aligned
        let long = 2;  // aligned
                       // and going on
        stage gpu : step {  // another column
          cost 0.5         // written under
            + 2 * tokens;  // one another
          // a line of its own
          budget 4;  // alone
        }
        """,
    )


def test_a_comment_above_code_does_not_go_on_under_another() -> None:
    becomes(
        """
        session { // the session
                  // and more about it
          turn; // a turn
        // the end
                // of it all
          end;
          turn; /* wide */ // narrow
                           // narrow, too
          /* far */        end;
        }
        """,
        """
        session {  // the session
                   // and more about it
          turn;  // a turn
          // the end
          // of it all
          end;
          turn;  /* wide */  // narrow
                             // narrow, too
          /* far */ end;
        }
        """,
    )


def test_block_comments_move_as_a_whole() -> None:
    becomes(
        """
        session {
              /* a picture:
                    +--+
                 |  |
               end */
              end;
        }
        """,
        """
        session {
          /* a picture:
                +--+
             |  |
           end */
          end;
        }
        """,
    )
